// SPDX-License-Identifier: Apache-2.0
// The framework catalogue: frameworks.d/NAME.toml, data that an admin adds without a compiler; see dl-frameworks(7).
// Pure but for reading the folder. Used by both plugins (to refuse an unknown name), dlrun and dlctl.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/contract/request_values.h"

namespace dl {

struct FrameworkVersion {
  std::string version;   // "1.13"
  bool hidden = false;   // usable, but not listed
  std::string activate;  // shell words put before the command's environment: "module load x",
                         // or empty; run by dlrun's agent through sh as the user
  // Those of the entry too, where the version has none of that name. Set if the user left it unset; %{rank} and the
  // like stand for values of each learner (frameworks/placeholders.h).
  std::map<std::string, std::string> environment;
};

struct FrameworkEntry {
  std::string name;                   // = file name without .toml
  std::string summary;                // one line
  std::vector<std::string> families;  // environment families (frameworks/families.h): "torch", "mpi", "ffdl", ...
  std::string launch = "agent";       // "agent", or "mpi": started through mpirun outside Slurm, PMIx inside
  std::string store = "learner";      // who hosts torch.distributed's store: "learner" (rank 0), or "launcher": dlrun
  bool pmix = true;                   // in Slurm: with PMIx; else with what the site gives every step (MpiDefault)
  int ports = 0;                      // TCP ports held for each learner (DL_PORTS); families may need more
  // Held until the learner ends, for a program that binds with SO_REUSEADDR or SO_REUSEPORT. false: let go just before
  // it starts, for one that sets neither (LightGBM, XGBoost); somebody else may take one in that moment.
  bool hold_ports = true;
  std::string probe;                       // shell command that prints the installed version, run on a node as the user
  std::string default_version;             // must be one of versions, unless versions is empty
  std::vector<FrameworkVersion> versions;  // empty: there is none to choose
  std::map<std::string, std::string> environment;  // of every version, as FrameworkVersion's
};

class Catalogue {
 public:
  // Reads *.toml of the folders in order; a later folder's entry replaces an earlier one of the same name. A missing
  // folder is not an error; a bad file is: kInvalid "PATH:LINE: KEY: ...". At most 256 files of at most 256 KiB.
  static Result<Catalogue> load(const std::vector<std::string>& folders);
  // The same without the entries that have a fault. If an earlier folder has a sound entry of the same name, that one
  // is left out, too, since the site has meant to replace it. A sentence on each fault is appended to `faults`. An
  // unreadable folder is a fault, too.
  static Catalogue load_sound(const std::vector<std::string>& folders, std::vector<std::string>* faults);
  static Result<FrameworkEntry> parse_entry(const std::string& text, const std::string& file_name);

  const FrameworkEntry* find(const std::string& name) const;  // nullptr if unknown; valid as long as the Catalogue
  const std::map<std::string, FrameworkEntry>& entries() const { return entries_; }

  // Entry and version that a request means. kNotFound: "'torch' is not a known framework; known: generic, mpi, pytorch"
  // or "pytorch has no version '9'; known: 1.13".
  struct Choice {
    const FrameworkEntry* entry;
    const FrameworkVersion* version;  // nullptr if the entry lists none
    std::string version_text;         // what to show, may be empty
    const std::map<std::string, std::string>& environment() const {
      return version != nullptr ? version->environment : entry->environment;
    }
  };
  Result<Choice> choose(const FrameworkRef& ref) const;

 private:
  std::map<std::string, FrameworkEntry> entries_;
};

}  // namespace dl
