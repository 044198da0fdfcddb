// SPDX-License-Identifier: Apache-2.0
// Keeps what several saves share: the layout, the staging memory, the threads, and the file with the tensors that do
// not change.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "checkpoint/engine/copy_pool.h"
#include "checkpoint/engine/save_job.h"
#include "checkpoint/engine/staging.h"
#include "checkpoint/engine/unchanged.h"
#include "checkpoint/engine/worker.h"
#include "checkpoint/engine/write_queue.h"

namespace dl::ckpt {

struct EngineSettings {
  uint64_t memory_bytes = 0;  // staging memory; 0: as much as the state, at most half of what is left in the cgroup
  int write_threads = 0;      // 0: 4
  bool reuse = false;         // tensors that do not change are stored once (unchanged.h)
  uint32_t writer = 0;        // rank, which is part of the files' names
};

// kInternal with ENOMEM, with the numbers in its text, if less than `bytes` of memory is left in the cgroup.
Status check_memory_wish(uint64_t bytes);

class Engine {
 public:
  Engine(Io& io, EngineSettings settings) : io_(io), settings_(settings) {}
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Finds out which tensors have not changed, lays the others out in one file or two, and gets staging memory for them.
  // It reads the items' memory. No job may be in progress. Blobs come last among the items. same_tensors: the items
  // before the blobs are the same datasets in the same order as in the last call, and that call succeeded.
  Result<std::unique_ptr<SaveJob>> prepare(std::vector<WriteItem> items, bool same_tensors = false);
  // To be called when the job's checkpoint has been committed in this directory.
  void committed(const SaveJob& job, const CheckpointName& name, const std::string& directory);
  // To be called when this checkpoint, in this directory, was restored: the next save may share its files.
  void restored(const Manifest& manifest, const std::string& directory);
  // Gets staging memory for a state of about this many bytes, and touches its pages in the background. The memory is
  // pinned if part of the state lies on a device that profits from that.
  void warm(uint64_t bytes, const MemoryPlace& place = {});

  // Created at the first call.
  CopyPool& pool();
  WriteQueue& queue();
  uint64_t layouts_made() const { return layouts_made_; }

 private:
  Result<Layout> lay_out_cached(const std::vector<WriteItem>& items, const std::vector<LayoutLink>& links,
                                bool same_tensors);
  std::vector<Home> find_homes(const std::vector<WriteItem>& items, std::vector<size_t>* unchanged);
  void keep(KeptFile kept, const std::string& directory);
  uint64_t budget_for(uint64_t bytes) const;
  Status make_staging(const std::vector<uint64_t>& file_sizes);

  Io& io_;
  EngineSettings settings_;
  std::unique_ptr<CopyPool> pool_;
  std::unique_ptr<WriteQueue> queue_;
  std::unique_ptr<Staging> staging_;
  Worker prefaulter_;  // declared after staging_, so that it is destroyed first
  // The items from which the template was made.
  std::vector<LayoutItem> template_items_;
  std::vector<LayoutLink> template_links_;
  std::unique_ptr<Layout> template_;
  uint64_t layouts_made_ = 0;
  ChangeHistory history_;
  std::optional<KeptFile> kept_;
  uint64_t waited_ = 0;  // see choose_homes()
};

}  // namespace dl::ckpt
