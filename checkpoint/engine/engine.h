// SPDX-License-Identifier: Apache-2.0
// What is kept from save to save: the layout, the staging memory, the threads, and the file of what does not change.
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
  uint64_t memory_bytes = 0;  // staging memory; 0: as much as the state, at most half of what the cgroup leaves
  int write_threads = 0;      // 0: 4
  bool reuse = false;         // what does not change is stored once (unchanged.h)
  uint32_t writer = 0;        // rank, for the names of files
};

// kInternal with ENOMEM, with numbers, if the cgroup does not leave `bytes` of memory.
Status check_memory_wish(uint64_t bytes);

class Engine {
 public:
  Engine(Io& io, EngineSettings settings) : io_(io), settings_(settings) {}
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Compares what did not change before, lays the rest out in one file or two, and gets staging memory for them. Reads
  // the items' memory. No job may be under way. Blobs come last among the items. same_tensors: those before them are
  // known to be the same datasets, in the same order, as in the last call, which succeeded.
  Result<std::unique_ptr<SaveJob>> prepare(std::vector<WriteItem> items, bool same_tensors = false);
  // The job's checkpoint is committed, in this directory.
  void committed(const SaveJob& job, const CheckpointName& name, const std::string& directory);
  // This checkpoint, in this directory, was restored: its files may serve the next save.
  void restored(const Manifest& manifest, const std::string& directory);
  // Gets staging memory for a state of about so many bytes and has it made present in the background; pinned, where
  // part of the state is at such a place.
  void warm(uint64_t bytes, const MemoryPlace& place = {});

  // Made when first asked for.
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
  Worker prefaulter_;  // after staging_: it ends first
  // What the template was made of.
  std::vector<LayoutItem> template_items_;
  std::vector<LayoutLink> template_links_;
  std::unique_ptr<Layout> template_;
  uint64_t layouts_made_ = 0;
  ChangeHistory history_;
  std::optional<KeptFile> kept_;
  uint64_t waited_ = 0;  // see choose_homes()
};

}  // namespace dl::ckpt
