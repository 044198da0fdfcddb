// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/machine_gpus.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace dl {
namespace {

TEST(MachineGpusTest, TheVariableCountsUpToTheFirstNameOfNone) {
  EXPECT_EQ(count_machine_gpus("0,1,3", "/none"), 3);
  EXPECT_EQ(count_machine_gpus("GPU-8a,MIG-7b", "/none"), 2);
  EXPECT_EQ(count_machine_gpus("0,-1,2", "/none"), 1);
  EXPECT_EQ(count_machine_gpus("", "/none"), 0);
  EXPECT_EQ(count_machine_gpus("NoDevFiles", "/none"), 0);
}

TEST(MachineGpusTest, WithoutItTheDeviceFilesCount) {
  char name[] = "/tmp/dl-gpus-XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::string folder = name;
  EXPECT_EQ(count_machine_gpus(nullptr, folder), 0);
  std::ofstream(folder + "/kfd") << "";
  EXPECT_EQ(count_machine_gpus(nullptr, folder), -1) << "AMD's are not counted";
  for (const char* file : {"nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm", "nvidia"})
    std::ofstream(folder + "/" + file) << "";
  EXPECT_EQ(count_machine_gpus(nullptr, folder), 3);
  ASSERT_EQ(std::system(("rm -rf '" + folder + "'").c_str()), 0);
  EXPECT_EQ(count_machine_gpus(nullptr, folder), 0);
}

}  // namespace
}  // namespace dl
