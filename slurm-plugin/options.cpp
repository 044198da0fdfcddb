// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/options.h"

#include "common/contract/env_names.h"

namespace dl {
namespace {

// Parses the value with `parse` and stores it in `field`.
template <auto parse, auto field>
Status store(std::string_view value, JobRequest* into) {
  auto parsed = parse(value);
  if (!parsed) return std::move(parsed).error();
  into->*field = std::move(parsed).value();
  return {};
}

}  // namespace

const std::array<Option, kOptionCount> kOptions{{
    {"dl-framework", "NAME[:VERSION]",
     "[dl] framework of the learners, an entry of the site's catalogue (dlctl frameworks)", env::kFramework,
     store<parse_framework_ref, &JobRequest::framework>},
    {"dl-learners", "N|MIN:MAX", "[dl] number of learners; a range makes the job elastic", env::kLearners,
     store<parse_learners, &JobRequest::learners>},
    {"dl-servers", "N|MIN:MAX",
     "[dl] number of parameter servers beside the learners, without GPUs; a range makes them an elastic pool",
     env::kServers, store<parse_servers, &JobRequest::servers>},
    {"dl-gpus", "[TYPE:]N", "[dl] GPUs for each learner; 0 for a CPU job", env::kGpus,
     store<parse_gpus, &JobRequest::gpus>},
    {"dl-batch", "MIN:MAX[:MULTIPLE][,rule=none|linear|sqrt|adascale][,micro=N]",
     "[dl] global batch sizes that keep accuracy; the program is told which one its number of learners gets",
     env::kBatch, store<parse_batch, &JobRequest::batch>},
    {"dl-checkpoint", "PATH[,every=TIME|Nsteps|auto][,keep=N][,...]",
     "[dl] directory of checkpoints; makes the job pausable: it is saved and requeued when it is preempted or its time "
     "ends",
     env::kCheckpoint, store<parse_checkpoint, &JobRequest::checkpoint>},
    {"dl-restarts", "N", "[dl] restarts inside the allocation before the job fails", env::kRestarts,
     store<parse_restarts, &JobRequest::restarts>},
    {"dl-hang-timeout", "TIME", "[dl] a learner without progress for so long counts as a failure", env::kHangTimeout,
     store<parse_hang_timeout, &JobRequest::hang_timeout>},
    {"dl-metrics", "EXPRESSION[ || EXPRESSION]...",
     "[dl] values in the learners' output, such as 'loss %{FLOAT:loss} at %{INT:step}'; see dlrun(1), METRICS",
     env::kMetrics, store<parse_metrics, &JobRequest::metrics>},
    {"dl-preflight", "off|quick|full", "[dl] checks of the nodes before the first learner starts", env::kPreflight,
     store<parse_preflight, &JobRequest::preflight>},
    {"dl-image", "PATH", "[dl] container image that the learners run in: a directory, .sqfs or .sif", env::kImage,
     store<parse_image, &JobRequest::image>},
    {"dl-data", "SRC[,to=DIR][,cache=MODE]|FILE.toml|@NAME",
     "[dl] data that is there before the learners start: a path, NAME:PATH of your rclone configuration, a URL",
     env::kData, store<data::parse_data, &JobRequest::data>},
    {"dl-results", "DEST[,checkpoint]",
     "[dl] where results and logs are stored at each end of the job: a path, or NAME:PATH of your rclone configuration",
     env::kResults, store<data::parse_results, &JobRequest::results>},
    {"dl-placement", "pack|spread", "[dl] learners on the fewest nodes, or spread over many", env::kNodePlacement,
     store<parse_placement, &JobRequest::placement>},
    {"dl-tier", "auto|guaranteed|borrow",
     "[dl] run within the quota, or on borrowed GPUs that are given back on demand", env::kTier,
     store<parse_tier, &JobRequest::tier>},
}};

Status read_option(const Option& option, std::string_view value, JobRequest* request, const std::string& called) {
  if (Status read = option.read(value, request); !read)
    return std::move(read).error().with_context(called.empty() ? std::string("--") + option.name : called);
  auto& environment = request->environment;
  for (auto& [name, text] : environment)
    if (name == option.env) {
      text = value;
      return {};
    }
  // The variables are kept in the order of the table, whatever the order on the command line.
  auto place = environment.begin();
  for (const Option& row : kOptions) {
    if (row.name == option.name) break;
    if (place != environment.end() && place->first == row.env) ++place;
  }
  environment.emplace(place, option.env, std::string(value));
  return {};
}

std::string slurm_option_env(const Option& option) {
  std::string name = std::string("_SLURM_SPANK_OPTION_dl_") + option.name;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}

}  // namespace dl
