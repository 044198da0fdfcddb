// SPDX-License-Identifier: Apache-2.0
// What looks like a secret is taken out of a text, and nothing else is.
#include "launcher/report/secrets.h"

#include <gtest/gtest.h>

namespace dl::report {
namespace {

TEST(ReportSecretsTest, ValuesOfSecretNamesAreHidden) {
  const std::pair<const char*, const char*> cases[] = {
      {"python t.py --api-key abc123 --lr 1", "python t.py --api-key … --lr 1"},
      {"python t.py --api-key=abc123 --lr 1", "python t.py --api-key=… --lr 1"},
      {"env WANDB_API_KEY=abc python t.py", "env WANDB_API_KEY=… python t.py"},
      {"--password 'a b' x", "--password '…' x"},
      {"--token \"a\\\"b\" x", "--token \"…\" x"},
      {"{\"hfToken\": \"abc\", \"lr\": 1}", "{\"hfToken\": \"…\", \"lr\": 1}"},
      {"Authorization: Bearer abc.def", "Authorization: Bearer …"},
      {"AWS_SECRET_ACCESS_KEY: abc/def+x", "AWS_SECRET_ACCESS_KEY: …"},
      {"db_password = hunter2; next", "db_password = …; next"},
      {"--token", "--token"},
      {"--token --verbose", "--token --verbose"},
      {"password=", "password="},
      {"secret='", "secret='…"}};
  for (const auto& [text, shown] : cases) EXPECT_EQ(without_secrets(text), shown) << text;
}

TEST(ReportSecretsTest, AddressesLoseTheirUserAndTheirQuery) {
  const std::pair<const char*, const char*> cases[] = {
      {"get https://bob:pw@host/a/b done", "get https://…@host/a/b done"},
      {"s3://bucket/key?X-Amz-Signature=abc&e=1 x", "s3://bucket/key?… x"},
      {"https://host/a@b", "https://host/a@b"},
      {"'https://u:p@h?q'", "'https://…@h?…'"},
      {"file:///a/b", "file:///a/b"},
      {"http://", "http://"}};
  for (const auto& [text, shown] : cases) EXPECT_EQ(without_secrets(text), shown) << text;
}

TEST(ReportSecretsTest, WordsThatBeginAsKnownTokensAreHidden) {
  EXPECT_EQ(without_secrets("login hf_AbCdEfGhIjKlMnOpQrSt ok"), "login … ok");
  EXPECT_EQ(without_secrets("ghp_0123456789abcdef0123"), "…");
  EXPECT_EQ(without_secrets("hf_model sk-learn"), "hf_model sk-learn");
}

TEST(ReportSecretsTest, WordsOfATrainingStay) {
  for (const char* text : {"step 10: loss=0.3 tokens=7919 tokens_per_s: 12", "--max-tokens 512 --tokenizer bert",
                           "pad_token=<pad> eos_token=x", "key=value keys: 3", "the token was wrong", "monkey=1",
                           "a key: b", "5 secrets", "python train.py --epochs 3"})
    EXPECT_EQ(without_secrets(text), text);
  EXPECT_EQ(without_secrets(""), "");
}

}  // namespace
}  // namespace dl::report
