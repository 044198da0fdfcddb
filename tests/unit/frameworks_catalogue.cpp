// SPDX-License-Identifier: Apache-2.0
#include "frameworks/catalogue.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace dl {
namespace {

const char* source_dir() {
  const char* dir = std::getenv("top_srcdir");
  return dir != nullptr ? dir : ".";
}

std::vector<std::string> shipped() {
  std::vector<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(source_dir()) + "/frameworks"))
    if (entry.is_directory()) folders.push_back(entry.path());
  return folders;
}

#define FAMILIES "ffdl, horovod, jax, jax_ids, mpi, nccl, network, peers, slurm, tensorflow, threads, torch"

#define PLACEHOLDERS                                                                                         \
  "%{address}, %{attempt}, %{checkpoint_dir}, %{cpus}, %{gpus}, %{job_dir}, %{job_id}, %{local_gpus}, "      \
  "%{local_rank}, %{local_world_size}, %{log_dir}, %{node_rank}, %{num_nodes}, %{peer}, %{peers}, %{port}, " \
  "%{rank}, %{world_size}"

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/dl-catalogue-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~Folder() { std::system(("rm -rf " + path_).c_str()); }  // NOLINT(cert-env33-c,concurrency-mt-unsafe)
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  void write(const std::string& name, const std::string& text) const { std::ofstream(path_ + "/" + name) << text; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Catalogue, ShippedEntriesAreRead) {
  auto catalogue = Catalogue::load(shipped());
  ASSERT_TRUE(catalogue) << catalogue.error().text;
  ASSERT_EQ(catalogue->entries().size(), shipped().size());
  EXPECT_EQ(catalogue->find("pytorch")->launch, "agent");
  EXPECT_EQ(catalogue->find("mpi")->launch, "mpi");
  EXPECT_TRUE(catalogue->find("mpi")->pmix);
  EXPECT_TRUE(catalogue->find("generic")->pmix);
  EXPECT_FALSE(catalogue->find("pytorch")->pmix);
  EXPECT_EQ(catalogue->find("pytorch")->store, "launcher");
  EXPECT_EQ(catalogue->find("generic")->store, "learner");
  EXPECT_EQ(catalogue->find("pytorch")->families, (std::vector<std::string>{"torch", "slurm", "network", "ffdl"}));
  for (const auto& item : catalogue->entries()) EXPECT_FALSE(item.second.summary.empty()) << item.first;
}

TEST(Catalogue, MissingFolderIsEmptyAndBadFileIsRefused) {
  EXPECT_TRUE(Catalogue::load({"/nonexistent/frameworks.d"}));
  const Folder folder;
  folder.write("x.toml", "sumary = \"typo\"\n");
  auto bad = Catalogue::load({folder.path()});
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().text, folder.path() +
                                  "/x.toml:1: sumary: unknown key; allowed: default_version, environment, families, "
                                  "hold_ports, launch, metrics, pmix, ports, "
                                  "probe, store, summary, versions");
}

TEST(Catalogue, LaterFolderReplacesAnEntry) {
  const Folder folder;
  folder.write("pytorch.toml",
               "summary = \"ours\"\n[[versions]]\nversion = \"2.4\"\nactivate = \"module load torch\"\n");
  folder.write("notes.txt", "not an entry");
  folder.write(".hidden.toml", "not = an entry");
  auto folders = shipped();
  folders.push_back(folder.path());
  auto catalogue = Catalogue::load(folders);
  ASSERT_TRUE(catalogue) << catalogue.error().text;
  EXPECT_EQ(catalogue->find("pytorch")->summary, "ours");
  EXPECT_EQ(catalogue->find("pytorch")->default_version, "2.4");
  EXPECT_EQ(catalogue->entries().size(), shipped().size());
}

// A slip in one entry concerns nobody who runs another framework; an earlier folder's entry is not what the site means.
TEST(Catalogue, TheSoundEntriesCanBeHadWithoutTheOthers) {
  const Folder first;
  const Folder second;
  first.write("a.toml", "summary = \"A\"\n");
  first.write("b.toml", "summary = \"B\"\n");
  second.write("b.toml", "sumary = \"B\"\n");
  second.write("c.toml", "summary = \"C\"\n");
  std::vector<std::string> faults;
  const Catalogue catalogue = Catalogue::load_sound({first.path(), second.path()}, &faults);
  EXPECT_NE(catalogue.find("a"), nullptr);
  EXPECT_EQ(catalogue.find("b"), nullptr);
  EXPECT_NE(catalogue.find("c"), nullptr);
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_NE(faults[0].find(second.path() + "/b.toml:1: sumary"), std::string::npos) << faults[0];
}

TEST(Catalogue, FifoAndBigFileDoNotHangOrPass) {
  const Folder folder;
  ASSERT_EQ(::mkfifo((folder.path() + "/a.toml").c_str(), 0600), 0);
  auto fifo = Catalogue::load({folder.path()});
  ASSERT_FALSE(fifo);
  EXPECT_NE(fifo.error().text.find("not a regular file"), std::string::npos);
  ::unlink((folder.path() + "/a.toml").c_str());
  folder.write("b.toml", "# " + std::string(300 * 1024, 'x'));
  auto big = Catalogue::load({folder.path()});
  ASSERT_FALSE(big);
  EXPECT_EQ(big.error().code, Errc::kInvalid);
}

TEST(Catalogue, ManyFilesAreRefused) {
  const Folder folder;
  for (int i = 0; i < 257; ++i) folder.write("f" + std::to_string(i) + ".toml", "");
  EXPECT_FALSE(Catalogue::load({folder.path()}));
}

TEST(Catalogue, BadEntriesNameFileLineAndKey) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"summary = 3", "d/x.toml:1: summary: must be a text in quotation marks"},
      {"\nlaunch = \"ssh\"", "d/x.toml:2: launch: 'ssh' is not allowed; allowed: agent, mpi"},
      {"store = \"rank0\"", "d/x.toml:1: store: 'rank0' is not allowed; allowed: launcher, learner"},
      {"families = \"torch\"", "d/x.toml:1: families: must be a list of texts; allowed: " FAMILIES},
      {"families = [\"torch\", \"caffe\"]",
       "d/x.toml:1: families: 'caffe' is not an environment family; allowed: " FAMILIES},
      {"families = [\"dl\"]", "d/x.toml:1: families: 'dl' is not an environment family; allowed: " FAMILIES},
      {"ports = -1", "d/x.toml:1: ports: must be a number from 0 to 64"},
      {"ports = 65", "d/x.toml:1: ports: must be a number from 0 to 64"},
      {"ports = \"2\"", "d/x.toml:1: ports: must be a number from 0 to 64"},
      {"families = [\"torch\", \"torch\"]", "d/x.toml:1: families: 'torch' is listed twice; allowed: once"},
      {"default_version = \"1\"",
       "d/x.toml:1: default_version: is given, but the entry has no [[versions]]; allowed: a table [[versions]] with "
       "it, or no default_version"},
      {"default_version = \"2\"\n[[versions]]\nversion = \"1\"",
       "d/x.toml:1: default_version: '2' is the version of none of the [[versions]]; allowed: one that they list"},
      {"[[versions]]\nhidden = true",
       "d/x.toml:1: versions.version: is missing; needed: version = \"...\" in each [[versions]]"},
      {"[[versions]]\nversion = \"a b\"",
       "d/x.toml:2: versions.version: 'a b' is not a plain name; allowed: 1 to 64 of A-Z a-z 0-9 . _ + -"},
      {"[[versions]]\nversion = \"1\"\n[[versions]]\nversion = \"1\"",
       "d/x.toml:4: versions.version: '1' is listed twice; allowed: once"},
      {"[[versions]]\nversion = \"1\"\nhidden = \"no\"", "d/x.toml:3: versions.hidden: must be true or false"},
      {"[[versions]]\nversion = \"1\"\nenvironment = { \"A=B\" = \"x\" }",
       "d/x.toml:3: versions.environment.A=B: is not the name of an environment variable; allowed: letters, digits and "
       "_, not beginning with a digit"},
      {"[[versions]]\nversion = \"1\"\nenvironment = { A = 1 }",
       "d/x.toml:3: versions.environment.A: must be a text in quotation marks"},
      {"[[versions]]\nversion = \"1\"\nactivat = \"x\"",
       "d/x.toml:3: versions.activat: unknown key; allowed: activate, environment, hidden, version"},
      {"[environment]\nA = \"%{rnk}\"",
       "d/x.toml:2: environment.A: '%{rnk}' is not a placeholder; allowed: " PLACEHOLDERS},
      {"[environment]\nA = \"%{peers}\"",
       "d/x.toml:2: environment.A: %{peer}, %{peers} and %{port} need a port held for each learner: add \"peers\" to "
       "families"},
      {"[metrics]\npatterns = [\"a %{INT}\"]",
       "d/x.toml:2: metrics.patterns: 'a %{INT}' names no value; allowed: at least one part with a name, such as "
       "%{FLOAT:loss} or (?<loss>.*)"},
      {"metrics = 1", "d/x.toml:1: metrics: must be a table, headed [metrics]"},
      {"[metrics]\npattern = []", "d/x.toml:2: metrics.pattern: unknown key; allowed: patterns"},
      {"hold_ports = 1", "d/x.toml:1: hold_ports: must be true or false"},
      {"versions = [1]", "d/x.toml:1: versions: must be tables, each headed [[versions]]"},
      {"summary = \"a\\u0007b\"", "d/x.toml:1: summary: holds a control character; allowed: printable text"},
  };
  for (const auto& item : cases) {
    auto entry = Catalogue::parse_entry(item.text, "d/x.toml");
    ASSERT_FALSE(entry) << item.text;
    EXPECT_EQ(entry.error().text, item.message);
    EXPECT_EQ(entry.error().code, Errc::kInvalid);
  }
  auto syntax = Catalogue::parse_entry("summary = ", "d/x.toml");
  ASSERT_FALSE(syntax);
  EXPECT_EQ(syntax.error().text.rfind("d/x.toml:1: ", 0), 0U) << syntax.error().text;
  EXPECT_FALSE(Catalogue::parse_entry("", "d/bad name.toml"));
  EXPECT_FALSE(Catalogue::parse_entry(std::string(100000, '['), "d/x.toml"));
  // toml++ asserts on these.
  for (const char* text : {"[=", "\n\n[[[\n\n", "a = 1\n[[ =]]"}) {
    auto entry = Catalogue::parse_entry(text, "d/x.toml");
    ASSERT_FALSE(entry) << text;
    EXPECT_EQ(entry.error().code, Errc::kInvalid);
  }
  EXPECT_EQ(Catalogue::parse_entry("\n\n[[[\n\n", "d/x.toml").error().text.rfind("d/x.toml:3: ", 0), 0U);
}

TEST(Catalogue, AVersionHasTheVariablesOfItsEntryToo) {
  auto entry = Catalogue::parse_entry(
      "[environment]\nA = \"1\"\nB = \"%{rank}\"\n[[versions]]\nversion = \"v\"\nenvironment = { A = \"2\" }\n",
      "x.toml");
  ASSERT_TRUE(entry) << entry.error().text;
  EXPECT_EQ(entry->versions[0].environment, (std::map<std::string, std::string>{{"A", "2"}, {"B", "%{rank}"}}));
  EXPECT_EQ(entry->environment, (std::map<std::string, std::string>{{"A", "1"}, {"B", "%{rank}"}}));
  EXPECT_TRUE(entry->hold_ports);
}

TEST(Catalogue, ChoosesVersions) {
  const Folder folder;
  folder.write("t.toml",
               "default_version = \"2.1\"\n[[versions]]\nversion = \"2.1\"\n[[versions]]\nversion = \"1.13\"\n"
               "[[versions]]\nversion = \"0.9\"\nhidden = true\n");
  folder.write("any.toml", "summary = \"no versions\"\n");
  auto catalogue = Catalogue::load({folder.path()});
  ASSERT_TRUE(catalogue);
  EXPECT_EQ(catalogue->choose({"t", ""})->version_text, "2.1");
  EXPECT_EQ(catalogue->choose({"t", "0.9"})->version_text, "0.9");
  // Nobody would look whether a job gets it.
  EXPECT_EQ(catalogue->choose({"any", "7"}).error().text,
            "'7' is no version that can be chosen: the entry of any lists none, and a job gets the version that its "
            "script finds; allowed: any");
  EXPECT_EQ(catalogue->choose({"any", ""})->version, nullptr);
  EXPECT_EQ(catalogue->choose({"t", "9"}).error().text, "t has no version '9'; known: 2.1, 1.13");
  EXPECT_EQ(catalogue->choose({"torch", ""}).error().text, "'torch' is not a known framework; known: any, t");
  EXPECT_EQ(catalogue->choose({"torch", ""}).error().code, Errc::kNotFound);
  EXPECT_EQ(Catalogue().choose({"x\n", ""}).error().text,
            "'x\\x0a' is not a known framework; known: none, since the catalogue is empty");
}

}  // namespace
}  // namespace dl
