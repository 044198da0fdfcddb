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
  std::string version;  // "1.13"
  bool hidden = false;  // usable, but not listed
  // Shell words put before the command's environment, such as "module load x", or empty. dlrun's agent runs them
  // through sh as the user.
  std::string activate;
  // The entry's variables, unless the version has one of that name. They are set if the user left them unset; %{rank}
  // and the like stand for values of each learner (frameworks/placeholders.h).
  std::map<std::string, std::string> environment;
};

struct FrameworkEntry {
  std::string name;                   // = file name without .toml
  std::string summary;                // one line of text
  std::vector<std::string> families;  // environment families (frameworks/families.h): "torch", "mpi", "ffdl", ...
  std::string launch = "agent";       // "agent", or "mpi": started through mpirun outside Slurm, PMIx inside
  std::string store = "learner";      // who hosts torch.distributed's store: "learner" (rank 0), or "launcher": dlrun
  bool pmix = true;  // true: its steps in a Slurm job use PMIx; false: they use what the site's MpiDefault says
  int ports = 0;     // TCP ports that agents hold for each learner (DL_PORTS); families may need more
  // true: the agent holds the ports until the learner ends, for a program that binds with SO_REUSEADDR or SO_REUSEPORT.
  // false: it releases them just before the learner starts, for a program that sets neither (LightGBM, XGBoost);
  // another program may take one in that moment.
  bool hold_ports = true;
  std::vector<std::string> metrics;  // expressions that find metrics in the output (common/contract/metric_patterns.h)
  std::string probe;                 // shell command that prints the installed version, run on a node as the user
  std::string default_version;       // must be one of versions, unless versions is empty
  std::vector<FrameworkVersion> versions;          // empty: there are none to choose from
  std::map<std::string, std::string> environment;  // of every version; see FrameworkVersion
};

class Catalogue {
 public:
  // Reads *.toml of the folders in order; a later folder's entry replaces an earlier one of the same name. A missing
  // folder is not an error; a bad file is: kInvalid "PATH:LINE: KEY: ...". At most 256 files of at most 256 KiB.
  static Result<Catalogue> load(const std::vector<std::string>& folders);
  // As load(), but without the entries that have a fault. If a faulty entry replaces one of an earlier folder, that one
  // is left out, too, since the site meant to replace it. A sentence on each fault is appended to `faults`. An
  // unreadable folder is a fault, too.
  static Catalogue load_sound(const std::vector<std::string>& folders, std::vector<std::string>* faults);
  static Result<FrameworkEntry> parse_entry(const std::string& text, const std::string& file_name);

  const FrameworkEntry* find(const std::string& name) const;  // nullptr if unknown; valid as long as the Catalogue
  const std::map<std::string, FrameworkEntry>& entries() const { return entries_; }

  // The entry and version that a request means. kNotFound: "'torch' is not a known framework; known: generic, mpi,
  // pytorch" or "pytorch has no version '9'; known: 1.13".
  struct Choice {
    const FrameworkEntry* entry;
    const FrameworkVersion* version;  // nullptr if the entry lists none
    std::string version_text;         // text to show to people; may be empty
    const std::map<std::string, std::string>& environment() const {
      return version != nullptr ? version->environment : entry->environment;
    }
  };
  Result<Choice> choose(const FrameworkRef& ref) const;

 private:
  std::map<std::string, FrameworkEntry> entries_;
};

}  // namespace dl
