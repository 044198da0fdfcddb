// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/plugin_file.h"

#include <elf.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "common/base/parse.h"

namespace dl::ctl {
namespace {

constexpr size_t kMostOfText = 200;
constexpr size_t kMostPlugstacks = 100;

// A view of a shared object that never reads beyond its end.
class SharedObject {
 public:
  explicit SharedObject(std::string_view content) : content_(content) {}

  template <class T>
  std::optional<T> at(uint64_t offset) const {
    if (offset > content_.size() || content_.size() - offset < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, content_.data() + offset, sizeof(T));
    return value;
  }

  // The text that ends in a 0 byte.
  std::string_view text(uint64_t offset) const {
    if (offset >= content_.size()) return {};
    const std::string_view rest = content_.substr(offset);
    return rest.substr(0, std::min(rest.find('\0'), kMostOfText));
  }

  // Where the bytes of an address of the loaded object lie in the file.
  std::optional<uint64_t> place_of(uint64_t address) const {
    const auto header = at<Elf64_Ehdr>(0);
    for (unsigned i = 0; header && i < header->e_phnum; ++i) {
      const auto part = at<Elf64_Phdr>(header->e_phoff + uint64_t{i} * sizeof(Elf64_Phdr));
      if (part && part->p_type == PT_LOAD && address >= part->p_vaddr && address - part->p_vaddr < part->p_filesz)
        return part->p_offset + (address - part->p_vaddr);
    }
    return std::nullopt;
  }

  // Where an exported symbol's value lies in the file.
  std::optional<uint64_t> symbol(std::string_view name) const {
    const auto header = at<Elf64_Ehdr>(0);
    for (unsigned i = 0; header && i < header->e_shnum; ++i) {
      const auto table = section(*header, i);
      if (!table || table->sh_type != SHT_DYNSYM) continue;
      const auto names = section(*header, table->sh_link);
      if (!names) return std::nullopt;
      const uint64_t count = std::min<uint64_t>(table->sh_size, content_.size()) / sizeof(Elf64_Sym);
      for (uint64_t k = 0; k < count; ++k) {
        const auto entry = at<Elf64_Sym>(table->sh_offset + k * sizeof(Elf64_Sym));
        if (entry && entry->st_shndx != SHN_UNDEF && text(names->sh_offset + entry->st_name) == name)
          return place_of(entry->st_value);
      }
    }
    return std::nullopt;
  }

 private:
  std::optional<Elf64_Shdr> section(const Elf64_Ehdr& header, unsigned index) const {
    return at<Elf64_Shdr>(header.e_shoff + uint64_t{index} * sizeof(Elf64_Shdr));
  }

  std::string_view content_;
};

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  for (const std::string& word : split(line.substr(0, line.find('#')), ' '))
    for (const std::string& part : split(word, '\t'))
      if (const std::string_view bare = trim(part); !bare.empty()) words.emplace_back(bare);
  return words;
}

class PlugstackReader {
 public:
  PlugstackReader(const ReadText& read, const ListFiles& list) : read_(read), list_(list) {}

  void read(const std::string& path) {
    if (seen_.size() >= kMostPlugstacks || !seen_.insert(path).second) return;
    const auto text = read_(path);
    if (!text) {
      result.unread.push_back(path);
      return;
    }
    int number = 0;
    for (const std::string& line : split(*text, '\n')) take(path, ++number, words_of(line));
  }

  Plugstack result;

 private:
  void take(const std::string& path, int number, const std::vector<std::string>& words) {
    if (words.empty()) return;
    const bool included = words[0] == "include", optional = words[0] == "optional";
    if ((!included && !optional && words[0] != "required") || words.size() < 2) {
      result.faults.push_back(fmt::format("{}:{}: '{}' is no line of plugstack.conf", path, number,
                                          join(words, " ").substr(0, kMostOfText)));
      return;
    }
    if (included) {
      const std::string pattern = words[1][0] == '/' ? words[1] : path.substr(0, path.rfind('/') + 1) + words[1];
      for (const std::string& file : list_(pattern)) read(file);
      return;
    }
    PlugstackLine line{path, number, !optional, words[1], "", false};
    for (size_t i = 2; i < words.size(); ++i) {
      if (words[i].rfind("config=", 0) == 0)
        line.config = words[i].substr(std::strlen("config="));
      else
        line.more = true;
    }
    result.lines.push_back(std::move(line));
  }

  const ReadText& read_;
  const ListFiles& list_;
  std::set<std::string> seen_;
};

}  // namespace

Result<PluginSigns> read_plugin_signs(std::string_view content) {
  const SharedObject object(content);
  const auto header = object.at<Elf64_Ehdr>(0);
  const uint16_t one = 1;
  const bool little = *reinterpret_cast<const unsigned char*>(&one) == 1;
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_ident[EI_DATA] != (little ? ELFDATA2LSB : ELFDATA2MSB) || header->e_type != ET_DYN)
    return Error{Errc::kInvalid, "it is no shared object for this machine"};
  const auto type = object.symbol("plugin_type"), version = object.symbol("plugin_version");
  const uint32_t number = version ? object.at<uint32_t>(*version).value_or(0) : 0;
  if (!type || number == 0) return Error{Errc::kInvalid, "it is no plugin of Slurm's"};
  PluginSigns signs;
  signs.type = object.text(*type);
  signs.slurm = {static_cast<int>(number >> 16 & 0xff), static_cast<int>(number >> 8 & 0xff),
                 static_cast<int>(number & 0xff)};
  signs.any_slurm = object.symbol("dl_any_slurm").has_value();
  if (const auto release = object.symbol("dl_release")) signs.release = object.text(*release);
  return signs;
}

Plugstack read_plugstack(const std::string& path, const ReadText& read, const ListFiles& list) {
  PlugstackReader reader(read, list);
  reader.read(path);
  return std::move(reader.result);
}

}  // namespace dl::ctl
