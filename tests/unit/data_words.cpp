// SPDX-License-Identifier: Apache-2.0
// What rclone, curl and web servers say: read, put into classes, and without secrets.
#include <gtest/gtest.h>

#include <chrono>

#include "common/remote/helper.h"
#include "common/remote/rclone.h"
#include "common/remote/scrub.h"
#include "launcher/data/fault.h"
#include "launcher/data/listing.h"
#include "launcher/data/web_origin.h"

namespace dl::data {
namespace {

TEST(DataRclone, lines_of_a_list_are_read) {
  Entry entry;
  auto read = [&](const char* line) { return parse_listed(line, &entry); };
  ASSERT_TRUE(read("["));
  EXPECT_FALSE(*read("["));
  EXPECT_FALSE(*read("]"));
  ASSERT_TRUE(*read(
      R"({"Path":"a/b c","Name":"b c","Size":12,"ModTime":"2024-02-29T12:00:00.5Z","IsDir":false,"Hashes":{"md5":"AA","SHA-1":"bb"}},)"));
  EXPECT_EQ(entry.path, "a/b c");
  EXPECT_EQ(entry.size, 12U);
  EXPECT_EQ(entry.mtime_ns, 1709208000'500000000);
  EXPECT_EQ(entry.identity, "sha1:bb");
  ASSERT_TRUE(*read(R"([{"Path":"d","Name":"d","Size":-1,"ModTime":"","IsDir":true})"));
  EXPECT_TRUE(entry.folder);
  EXPECT_EQ(entry.size, 0U);
}

TEST(DataRclone, a_list_that_is_cut_may_pass_and_a_file_without_size_may_not) {
  Entry entry;
  for (const char* cut :
       {R"({"Path":"a)", R"({"Path":7,"Size":1})", R"({"Name":"x"})", "x", R"({"Path":"a","Size":"1"})", ",", "[,"}) {
    const auto read = parse_listed(cut, &entry);
    ASSERT_FALSE(read) << cut;
    EXPECT_EQ(exit_status(read.error()), kExitLater);
  }
  const auto sizeless = parse_listed(R"({"Path":"doc","Size":-1,"IsDir":false})", &entry);
  ASSERT_FALSE(sizeless);
  EXPECT_EQ(exit_status(sizeless.error()), kExitUser);
}

TEST(DataRclone, times_are_read_with_their_zones) {
  EXPECT_EQ(parse_time_ns("1970-01-01T00:00:01Z"), 1'000'000'000);
  EXPECT_EQ(parse_time_ns("1970-01-01T01:00:01.000000001+01:00"), 1'000'000'001);
  EXPECT_EQ(parse_time_ns("1969-12-31T19:00:01-05:00"), 1'000'000'000);
  EXPECT_EQ(parse_time_ns("9999-12-31T23:59:59Z"), INT64_MAX);
  EXPECT_EQ(parse_time_ns("0001-01-01T00:00:00Z"), INT64_MIN);
  for (const char* bad : {"", "2024-02-29T12:00:00+ab:cd", "now", "2024-02-29", "2024-02-29T12:00:00",
                          "2024-02-29T12:00:00X", "2024-02-29 12:00:00Z"})
    EXPECT_EQ(parse_time_ns(bad), 0) << bad;
}

// What rclone 1.60 and 1.75 wrote when these things happened.
TEST(DataRclone, failures_have_their_class) {
  struct Case {
    int status, exit;
    const char* said;
  };
  for (
      const Case& one : {
          Case{3, kExitUser, "2026/11/29 19:00:00 ERROR : : error listing: directory not found"},
          Case{4, kExitUser, "object not found"},
          Case{1, kExitUser,
               R"(2026/11/29 19:00:00 Failed to create file system for "x:": didn't find section in config file)"},
          Case{1, kExitUser, "AccessDenied: Access Denied.\n\tstatus code: 403, request id: 1234, host id: x"},
          Case{
              1, kExitUser,
              R"({"level":"error","msg":"error listing: operation error S3: ListObjectsV2, StatusCode: 403, api error AccessDenied: no","object":""})"},
          Case{1, kExitUser,
               "couldn't connect SSH: ssh: handshake failed: ssh: unable to authenticate, attempted methods [none "
               "publickey]"},
          Case{1, kExitUser, "NoSuchBucket: The specified bucket does not exist\n\tstatus code: 404"},
          Case{1, kExitUser, "HTTP Error 404: 404 Not Found"},
          Case{1, kExitLater, "SlowDown: Please reduce your request rate.\n\tstatus code: 503, request id: 403404"},
          Case{1, kExitLater, "dial tcp 10.0.0.1:9000: connect: connection refused"},
          Case{1, kExitLater, "read tcp 1.2.3.4:403->1.2.3.4:443: i/o timeout"},
          Case{5, kExitLater, "unexpected EOF"},
          Case{137, kExitLater, ""},
          Case{1, kExitLocalDisk, "write /local/x: no space left on device"},
      }) {
    HelperEnd end;
    end.status = one.status;
    end.said = one.said;
    const Error error = rclone_error("list lab:x", end);
    EXPECT_EQ(exit_status(error), one.exit) << one.said;
    EXPECT_EQ(error.text.find('\n'), std::string::npos);
    EXPECT_EQ(error.text.rfind("list lab:x: ", 0), 0U) << error.text;
  }
}

// The names of objects, of which a user may have any, decide nothing; nor do lines that tell no error.
TEST(DataRclone, only_what_errors_say_decides_their_class) {
  const struct {
    int status, exit;
    const char* said;
  } rows[] = {
      {1, kExitLater,
       R"({"level":"error","msg":"Failed to copy: connection reset by peer","object":"no space left on device/access denied"})"},
      {1, kExitLater,
       R"({"level":"info","msg":"Copied (new) to: permission denied","object":"a"})"
       "\n"
       R"({"level":"error","msg":"i/o timeout","object":""})"},
      {1, kExitLater,
       R"({"level":"error","msg":"Failed to copy: open \"status code: 403/object not found\": EOF","object":""})"},
      {1, kExitLater,
       R"(ct not found","object":"x: permission denied"})"  // the end of a line of which the beginning is gone
       "\n"
       R"({"level":"error","msg":"connection refused","object":""})"},
      {1, kExitLater,
       R"({"level":"error","msg":"Failed to copy: a/access denied.txt: unexpected EOF","object":"a/access denied.txt"})"},
      {1, kExitUser,
       R"({"level":"error","msg":"Failed to copy: permission denied","object":"connection reset by peer"})"},
      {1, kExitUser, R"({"level":"error","msg":"Failed to copy: permission denied","object":"d"})"},
      {1, kExitUser,
       R"({"level":"notice","msg":"Failed to lsjson: error in ListJSON: StatusCode: 403, api error SignatureDoesNotMatch"})"},
      {1, kExitUser, "2026/11/29 19:00:00 INFO  : x: Copied\n2026/11/29 19:00:00 ERROR : x: object not found"},
      {1, kExitLater, "2026/11/29 19:00:00 INFO  : object not found: Copied\n2026/11/29 19:00:00 ERROR : x: EOF"},
  };
  for (const auto& row : rows) {
    HelperEnd end;
    end.status = row.status;
    end.said = row.said;
    EXPECT_EQ(exit_status(rclone_error("fetch lab:x", end)), row.exit) << row.said;
  }
}

TEST(DataFault, the_disk_of_a_destination_is_not_that_of_the_node) {
  EXPECT_EQ(exit_status(of_destination({Errc::kNoSpace, "x"})), kExitUser);
  EXPECT_EQ(exit_status(of_destination({Errc::kIo, "x"})), kExitLater);
  EXPECT_EQ(exit_status(of_destination({Errc::kDenied, "x"})), kExitUser);
  EXPECT_EQ(exit_status(of_destination({Errc::kBusy, "x"})), kExitLater);
}

TEST(DataRclone, what_is_logged_as_json_is_read) {
  RcloneLine line;
  ASSERT_TRUE(parse_logged(R"x({"level":"info","msg":"Copied (new)","object":"a/b","time":"x"})x", &line));
  EXPECT_EQ(line.message, "Copied (new)");
  EXPECT_EQ(line.object, "a/b");
  ASSERT_TRUE(parse_logged(R"({"level":"notice","msg":"x","stats":{"bytes":7,"totalBytes":9}})", &line));
  EXPECT_EQ(line.bytes, 7U);
  EXPECT_EQ(line.total, 9U);
  for (const char* other : {"", "text", "{", "[]", R"({"level":7})"}) EXPECT_FALSE(parse_logged(other, &line)) << other;
}

TEST(DataHelper, one_that_closes_its_output_and_does_not_end_is_ended) {
  HelperRun run;
  run.argv = {"sh", "-c", "exec sleep 300 >&- 2>&-"};
  const auto began = std::chrono::steady_clock::now();
  const auto end = run_helper(run);
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, Errc::kTimeout);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(100));
}

TEST(DataScrub, secrets_are_hidden_and_what_helps_stays) {
  const std::string planted = "pLanTeD0s3cret";
  for (const std::string& text : {
           "https://user:" + planted + "@host/x failed",
           "Get \"https://host/x?X-Amz-Signature=" + planted + "&a=b\": EOF",
           "secret_access_key = " + planted,
           "{\"token\":\"" + planted + "\",\"x\":1}",
           "{\\\"access_token\\\":\\\"" + planted + "\\\"}",
           "Authorization: Bearer " + planted,
           "authorization: AWS4-HMAC-SHA256 Credential=" + planted + "/2026, Signature=" + planted,
           "pass=" + planted + ";",
           "Cookie: a=" + planted + "; b=" + planted,
       }) {
    EXPECT_EQ(scrubbed(text).find(planted), std::string::npos) << scrubbed(text);
  }
  EXPECT_EQ(scrubbed("key AKIAIOSFODNN7EXAMPLE is unknown").find("IOSFODNN7"), std::string::npos);
  EXPECT_EQ(scrubbed("said " + planted, {planted}), "said ***");
  EXPECT_EQ(scrubbed("open https://host:8443/a/b: status 404"), "open https://host:8443/a/b: status 404");
  EXPECT_EQ(scrubbed("lab:bucket/keys/a.bin: object not found"), "lab:bucket/keys/a.bin: object not found");
}

TEST(DataWeb, headers_end_where_the_body_begins_also_after_redirections) {
  const std::string said =
      "HTTP/1.1 302 Found\r\nLocation: /y\r\nContent-Length: 5\r\n\r\n"
      "HTTP/2 206 \r\nContent-Range: bytes 10-19/40\r\nETag: \"v1\"\r\nContent-Length: 10\r\n\r\n0123456789";
  for (size_t step = 1; step <= said.size(); ++step) {
    HeaderReader reader;
    std::string body;
    for (size_t at = 0; at < said.size(); at += step) body += reader.take(std::string_view(said).substr(at, step));
    ASSERT_TRUE(reader.done());
    ASSERT_EQ(body, "0123456789") << step;
    EXPECT_EQ(reader.answer().status, 206);
    EXPECT_EQ(reader.answer().from, 10);
    EXPECT_EQ(reader.answer().of, 40);
    EXPECT_EQ(reader.answer().etag, "\"v1\"");
  }
}

TEST(DataWeb, hostile_headers_give_no_numbers) {
  const WebAnswer answer =
      parse_answer("HTTP/1.1 2x0\nContent-Length: -5\nContent-Range: bytes x-y/z\nETag: W/\"weak\"\n:\n\nx");
  EXPECT_EQ(answer.length, -1);
  EXPECT_EQ(answer.of, -1);
  EXPECT_EQ(answer.etag, "");
}

TEST(DataWeb, a_url_names_its_file) {
  EXPECT_EQ(name_in_url("https://h/a/b.tar?x=y/z#f"), "b.tar");
  EXPECT_EQ(name_in_url("https://h/a/b%20c%2Fd"), "b c/d");
  EXPECT_EQ(name_in_url("https://h/%2e%2e"), "..");
  EXPECT_EQ(name_in_url("https://h/a%"), "a%");
  EXPECT_EQ(name_in_url("https://h/"), "");
  EXPECT_EQ(name_in_url("https://h"), "");
}

TEST(DataFault, each_class_has_its_exit_status) {
  EXPECT_EQ(exit_status(source_error("x", ENOENT)), kExitUser);
  EXPECT_EQ(exit_status(source_error("x", EACCES)), kExitUser);
  EXPECT_EQ(exit_status(source_error("x", ESTALE)), kExitLater);
  EXPECT_EQ(exit_status(source_error("x", EIO)), kExitLater);
  EXPECT_EQ(exit_status(local_error("x", ENOSPC)), kExitLocalDisk);
  EXPECT_EQ(exit_status(local_error("x", EACCES)), kExitLocalDisk);
  EXPECT_EQ(exit_status(destination_error("x", EDQUOT)), kExitUser);
  EXPECT_EQ(exit_status(destination_error("x", EISDIR)), kExitUser);
  EXPECT_EQ(exit_status(destination_error("x", ENOTEMPTY)), kExitUser);
  EXPECT_EQ(exit_status(destination_error("x", EIO)), kExitLater);
  EXPECT_EQ(exit_status(late_error("x")), kExitLate);
  EXPECT_EQ(exit_status({Errc::kTimeout, "x"}), kExitLater);
  EXPECT_EQ(exit_status({Errc::kInternal, "x"}), kExitFault);
}

}  // namespace
}  // namespace dl::data
