// SPDX-License-Identifier: Apache-2.0
// What dlctl doctor reads from the files of plugins, and from plugstack.conf.
#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

#include "launcher/ctl/plugin_file.h"

namespace dl::ctl {
namespace {

// A shared object with these symbols, as small as one can be.
class Object {
 public:
  void add(const std::string& name, const std::string& bytes) {
    Elf64_Sym symbol{};
    symbol.st_name = static_cast<uint32_t>(names_.size());
    symbol.st_shndx = 1;
    symbol.st_value = kAddress + kData + data_.size();
    symbols_.push_back(symbol);
    names_ += name + '\0';
    data_ += bytes;
  }

  std::string text() const {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    const uint16_t one = 1;
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = *reinterpret_cast<const unsigned char*>(&one) == 1 ? ELFDATA2LSB : ELFDATA2MSB;
    header.e_type = ET_DYN;
    header.e_phoff = sizeof header;
    header.e_phnum = 1;
    header.e_shnum = 3;
    Elf64_Phdr part{};
    part.p_type = PT_LOAD;
    part.p_vaddr = kAddress;
    std::string text(kData, '\0');
    text += data_;
    Elf64_Shdr table{}, names{};
    table.sh_type = SHT_DYNSYM;
    table.sh_link = 2;
    table.sh_offset = text.size();
    table.sh_size = symbols_.size() * sizeof(Elf64_Sym);
    for (const Elf64_Sym& symbol : symbols_) text += bytes_of(symbol);
    names.sh_type = SHT_STRTAB;
    names.sh_offset = text.size();
    text += names_;
    header.e_shoff = text.size();
    text += bytes_of(Elf64_Shdr{}) + bytes_of(table) + bytes_of(names);
    part.p_filesz = text.size();
    std::memcpy(text.data(), &header, sizeof header);
    std::memcpy(text.data() + sizeof header, &part, sizeof part);
    return text;
  }

  template <class T>
  static std::string bytes_of(const T& value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }

 private:
  static constexpr uint64_t kAddress = 0x10000, kData = 256;
  std::vector<Elf64_Sym> symbols_;
  std::string names_ = std::string(1, '\0'), data_;
};

std::string plugin(bool with_release, bool any_slurm = false) {
  Object object;
  object.add("plugin_name", std::string("dl\0", 3));
  object.add("plugin_type", std::string("spank\0", 6));
  object.add("plugin_version", Object::bytes_of(uint32_t{22 << 16 | 5 << 8 | 8}));
  if (with_release) object.add("dl_release", std::string("0.1.0\0", 6));
  if (any_slurm) object.add("dl_any_slurm", std::string("22.05\0", 6));
  return object.text();
}

TEST(PluginFile, says_for_which_slurm_it_was_built_and_of_which_slurm_dl_it_is) {
  const auto signs = read_plugin_signs(plugin(true));
  ASSERT_TRUE(signs) << signs.error().text;
  EXPECT_EQ(signs->type, "spank");
  EXPECT_EQ(signs->slurm.major, 22);
  EXPECT_EQ(signs->slurm.minor, 5);
  EXPECT_EQ(signs->slurm.micro, 8);
  EXPECT_EQ(signs->release, "0.1.0");
  EXPECT_EQ(read_plugin_signs(plugin(false))->release, "");
  EXPECT_FALSE(signs->any_slurm);
  EXPECT_TRUE(read_plugin_signs(plugin(true, true))->any_slurm);
}

TEST(PluginFile, what_is_no_plugin_is_told_and_never_read_beyond_its_end) {
  EXPECT_EQ(read_plugin_signs("#!/bin/bash\n").error().text, "it is no shared object for this machine");
  Object other;
  other.add("main", "x");
  EXPECT_EQ(read_plugin_signs(other.text()).error().text, "it is no plugin of Slurm's");
  const std::string whole = plugin(true);
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(read_plugin_signs(whole.substr(0, size)));
  std::mt19937 random(22);
  for (int round = 0; round < 20000; ++round) {
    std::string bent = whole;
    for (int k = 0; k < 3; ++k) bent[random() % bent.size()] = static_cast<char>(random());
    ignore(read_plugin_signs(bent), "it must not crash");
  }
}

using Files = std::map<std::string, std::string>;

Plugstack read(const Files& files) {
  const ReadText text = [&](const std::string& path) -> std::optional<std::string> {
    const auto found = files.find(path);
    return found == files.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
  const ListFiles list = [&](const std::string& pattern) {
    std::vector<std::string> found;
    for (const auto& [path, content] : files)
      if (path.rfind(pattern.substr(0, pattern.find('*')), 0) == 0) found.push_back(path);
    return found;
  };
  return read_plugstack("/etc/slurm/plugstack.conf", text, list);
}

TEST(Plugstack, lines_of_all_included_files_are_found_with_their_places) {
  const Plugstack stack =
      read({{"/etc/slurm/plugstack.conf", "# ours\n\noptional\t/a/x11.so  one two\ninclude plugstack.conf.d/*\n"},
            {"/etc/slurm/plugstack.conf.d/dl.conf", "required spank_dl.so config=/etc/dl.toml # x\n"}});
  ASSERT_EQ(stack.lines.size(), 2U);
  EXPECT_EQ(stack.lines[0].plugin, "/a/x11.so");
  EXPECT_FALSE(stack.lines[0].required);
  EXPECT_TRUE(stack.lines[0].more);
  EXPECT_EQ(stack.lines[1].file, "/etc/slurm/plugstack.conf.d/dl.conf");
  EXPECT_EQ(stack.lines[1].line, 1);
  EXPECT_TRUE(stack.lines[1].required);
  EXPECT_EQ(stack.lines[1].config, "/etc/dl.toml");
  EXPECT_FALSE(stack.lines[1].more);
  EXPECT_TRUE(stack.faults.empty());
}

TEST(Plugstack, lines_that_slurm_does_not_understand_and_missing_files_are_told_and_a_circle_ends) {
  const Plugstack stack = read({{"/etc/slurm/plugstack.conf",
                                 "required spank_dl.so\nRequired spank_dl.so\nrequired\n"
                                 "include /etc/slurm/plugstack.conf\n"}});
  EXPECT_EQ(stack.lines.size(), 1U);
  ASSERT_EQ(stack.faults.size(), 2U);
  EXPECT_EQ(stack.faults[0], "/etc/slurm/plugstack.conf:2: 'Required spank_dl.so' is no line of plugstack.conf");
  EXPECT_EQ(read({}).unread, std::vector<std::string>{"/etc/slurm/plugstack.conf"});
}

}  // namespace
}  // namespace dl::ctl
