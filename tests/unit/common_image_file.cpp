// SPDX-License-Identifier: Apache-2.0
#include "common/contract/image_file.h"

#include <gtest/gtest.h>

namespace dl {
namespace {

TEST(Images, HaveADigestOrNone) {
  const std::string hex(64, 'a');
  EXPECT_EQ(split_image("/x.sif@sha256:" + hex).path, "/x.sif");
  EXPECT_EQ(split_image("/x.sif@sha256:" + std::string(64, 'A')).digest, hex);
  for (const std::string& none : {std::string("/x.sif"), "/x.sif@sha256:" + hex + "0",
                                  "/x.sif@sha256:" + std::string(64, 'g'), std::string("/x@sha256:")}) {
    EXPECT_EQ(split_image(none).path, none);
    EXPECT_EQ(split_image(none).digest, "");
  }
}

}  // namespace
}  // namespace dl
