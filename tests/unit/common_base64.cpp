// SPDX-License-Identifier: Apache-2.0
#include "common/base/base64.h"

#include <gtest/gtest.h>

#include <utility>

namespace dl {
namespace {

TEST(Base64Test, IsThatOfTheStandard) {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(*from_base64(text), bytes);
  }
  for (const char* bad : {"Z", "Zg", "Zg=", "=g==", "Zg==Zg==", "Z===", "Zm9 ", "Zm=v"})
    EXPECT_FALSE(from_base64(bad)) << bad;
}

}  // namespace
}  // namespace dl
