// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/engine/engine.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "checkpoint/engine/memory_limit.h"

namespace dl::ckpt {
namespace {

constexpr uint64_t kMinBuffer = uint64_t{64} << 10;
constexpr uint64_t kMaxBuffer = uint64_t{8} << 20;
constexpr int kMaxCopyThreads = 4;
constexpr int kWriteThreads = 4;

// The size for about eight buffers, so that copying, hashing and writing overlap even in little memory.
uint64_t buffer_size(uint64_t budget) {
  uint64_t size = kMaxBuffer;
  while (size > kMinBuffer && size * 8 > budget) size /= 2;
  return size;
}

std::string mebibytes(uint64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

}  // namespace

Status check_memory_wish(uint64_t bytes) {
  const auto room = memory_room();
  if (!room || bytes <= room->left()) return {};
  return Error{Errc::kInternal,
               "DL_CHECKPOINT_MEMORY (options.memory_bytes) asks for " + mebibytes(bytes) +
                   " of staging memory, but the job's cgroup leaves " + mebibytes(room->left()) + " (limit " +
                   mebibytes(room->limit) + ", in use " + mebibytes(room->used) +
                   "); ask for more (--mem), or set less",
               ENOMEM};
}

CopyPool& Engine::pool() {
  if (!pool_) pool_ = std::make_unique<CopyPool>(usable_cores(kMaxCopyThreads));
  return *pool_;
}

WriteQueue& Engine::queue() {
  if (!queue_) queue_ = make_write_queue(io_, settings_.write_threads > 0 ? settings_.write_threads : kWriteThreads);
  return *queue_;
}

// Keeps the layout of the tensors as a template. Blobs (JSON, random states) have other sizes in each save; they come
// after the tensors, and only they are laid out again.
Result<Layout> Engine::lay_out_cached(const std::vector<WriteItem>& items, const std::vector<LayoutLink>& links,
                                      bool same_tensors) {
  const auto is_blob = [](const WriteItem& item) { return item.dataset->blob; };
  const auto first_blob = std::find_if(items.begin(), items.end(), is_blob);
  if (!std::all_of(first_blob, items.end(), is_blob))
    return Error{Errc::kInternal, "a tensor follows a blob in the plan of a save"};
  const auto tensors = static_cast<size_t>(first_blob - items.begin());
  const auto same_link = [](const LayoutLink& a, const LayoutLink& b) {
    return a.h5_path == b.h5_path && a.file == b.file;
  };
  bool same = template_ && template_items_.size() == tensors &&
              std::equal(links.begin(), links.end(), template_links_.begin(), template_links_.end(), same_link);
  // With same_tensors the datasets need not be compared: a tensor that is not in this file is in the links, so if the
  // links are the same, this file has the same tensors, too.
  for (size_t i = 0; same && !same_tensors && i < tensors; ++i)
    same = same_dataset(template_items_[i], *items[i].dataset);
  if (!same) {
    template_.reset();
    template_items_.clear();
    for (size_t i = 0; i < tensors; ++i) template_items_.push_back(*items[i].dataset);
    template_links_ = links;
    DL_TRY_ASSIGN(Layout made, lay_out_template(template_items_, links));
    template_ = std::make_unique<Layout>(std::move(made));
    ++layouts_made_;
  }
  std::vector<LayoutItem> blobs;
  for (auto blob = first_blob; blob != items.end(); ++blob) blobs.push_back(*blob->dataset);
  return complete_layout(*template_, blobs);
}

uint64_t Engine::budget_for(uint64_t bytes) const {
  if (settings_.memory_bytes > 0) return std::min(settings_.memory_bytes, bytes);
  const auto room = memory_room();
  return room ? std::min(bytes, std::max(room->left() / 2, kMaxBuffer)) : bytes;
}

// Gets buffers for all files at once, if the budget allows. The present buffers are kept if they still fit.
Status Engine::make_staging(const std::vector<uint64_t>& file_sizes) {
  uint64_t bytes = 0;
  for (const uint64_t size : file_sizes) bytes += round_up(size, kDirectAlignment);
  const auto buffers_of = [&](uint64_t buffer) {
    uint64_t count = 0;
    for (const uint64_t size : file_sizes) count += (size + buffer - 1) / buffer;
    return count;
  };
  if (staging_) {
    // The budget must not be smaller than the memory that it already uses.
    const uint64_t budget = staging_->bytes() >= bytes ? bytes : budget_for(bytes);
    if (staging_->buffer_bytes() == buffer_size(budget) &&
        (staging_->buffers() >= buffers_of(staging_->buffer_bytes()) || staging_->bytes() + kMaxBuffer >= budget))
      return {};
    prefaulter_.wait();
    staging_.reset();
  }
  const uint64_t budget = budget_for(bytes);
  const uint64_t buffer = buffer_size(budget);
  // One more buffer, so that a blob that grows needs no new memory. It is not touched before it is used, so it costs
  // nothing.
  const uint64_t count =
      budget >= bytes ? buffers_of(buffer) + 1 : std::clamp<uint64_t>(budget / buffer, 1, buffers_of(buffer));
  DL_TRY_ASSIGN(staging_, Staging::make(buffer, count));
  return {};
}

// Decides where each item goes. Items of the kept file that have changed are removed from its list.
std::vector<Home> Engine::find_homes(const std::vector<WriteItem>& items, std::vector<size_t>* unchanged) {
  unchanged->assign(items.size(), kNotKept);
  if (!settings_.reuse) return std::vector<Home>(items.size(), Home::kMain);
  if (kept_) {
    *unchanged = find_unchanged(*kept_, items, pool());
    for (size_t i = 0; i < items.size(); ++i) {
      if ((*unchanged)[i] != kChanged) continue;
      history_.surprised(items[i].dataset->h5_path);
      (*unchanged)[i] = kNotKept;
    }
  }
  std::vector<Home> homes = choose_homes(items, *unchanged, kept_ ? kept_->stored_bytes : 0, history_, &waited_);
  if (std::find(homes.begin(), homes.end(), Home::kKept) == homes.end()) {
    kept_.reset();
  } else {
    kept_->drop_others(unchanged);
  }
  return homes;
}

Result<std::unique_ptr<SaveJob>> Engine::prepare(std::vector<WriteItem> items, bool same_tensors) {
  const auto on_device =
      std::find_if(items.begin(), items.end(), [](const auto& item) { return !item.place.on_host(); });
  const MemoryPlace place = on_device == items.end() ? MemoryPlace() : on_device->place;
  std::vector<size_t> unchanged;
  const std::vector<Home> homes = find_homes(items, &unchanged);
  std::vector<WriteItem> changing, settled;
  std::vector<LayoutLink> links;
  std::vector<SaveJob::Place> places(items.size());
  const std::string kept_name = format_file_name(settings_.writer, kKeptPart);
  // Usually everything changes; then the items need not be sorted, one by one, while training waits.
  const bool all_change = std::all_of(homes.begin(), homes.end(), [](Home home) { return home == Home::kMain; });
  if (all_change) {
    changing = std::move(items);
  } else {
    for (size_t i = 0; i < items.size(); ++i) {
      places[i].file = homes[i] == Home::kMain ? 0 : 1;
      if (homes[i] != Home::kMain) links.push_back({items[i].dataset->h5_path, kept_name});
      if (homes[i] == Home::kKept) {
        places[i].at = kept_->at[unchanged[i]];
      } else {
        (homes[i] == Home::kMain ? changing : settled).push_back(std::move(items[i]));
      }
    }
  }
  std::vector<FileImage> images;
  DL_TRY_ASSIGN(Layout main, lay_out_cached(changing, links, same_tensors));
  if (settled.empty()) {
    DL_TRY(make_staging({main.file_size}));
    images.emplace_back(std::move(main), std::move(changing), 0, staging_->buffer_bytes());
  } else {
    std::vector<LayoutItem> datasets;
    for (const WriteItem& item : settled) datasets.push_back(*item.dataset);
    DL_TRY_ASSIGN(Layout other, lay_out(datasets));
    DL_TRY(make_staging({main.file_size, other.file_size}));
    images.emplace_back(std::move(main), std::move(changing), 0, staging_->buffer_bytes());
    images.emplace_back(std::move(other), std::move(settled), kKeptPart, staging_->buffer_bytes());
  }
  if (!place.on_host()) staging_->pin(place);
  std::vector<size_t> next(images.size(), 0);
  for (size_t i = 0; i < places.size(); ++i)
    if (homes[i] != Home::kKept) places[i].at = images[places[i].file].places()[next[places[i].file]++];
  return std::make_unique<SaveJob>(*staging_, std::move(images), kept_, std::move(places));
}

// Opens the kept file, so that it can be copied even if somebody removes the checkpoint that has it.
void Engine::keep(KeptFile kept, const std::string& directory) {
  kept.path = directory + "/" + kept.record.name();
  if (!kept.file) {
    auto file = File::open(io_, kept.path, O_RDONLY);
    if (!file) return;
    kept.file = std::make_shared<File>(*std::move(file));
  }
  kept_ = std::move(kept);
}

void Engine::committed(const SaveJob& job, const CheckpointName& name, const std::string& directory) {
  if (!settings_.reuse) return;
  for (const FileImage& image : job.images()) {
    const std::vector<WriteItem>& items = image.items();
    for (size_t i = 0; i < items.size(); ++i)
      if (!items[i].dataset->blob && items[i].bytes() >= kOwnBlocksFrom)
        history_.saved(items[i].dataset->h5_path, image.item_hash(i));
  }
  if (kept_) return keep(*std::move(kept_), directory);
  if (job.images().size() < 2) return;
  const FileImage& image = job.images()[1];
  KeptFile made;
  made.record = job.records()[1];
  made.record.origin = name;
  made.at = image.places();
  for (const WriteItem& item : image.items()) {
    made.items.push_back(*item.dataset);
    made.stored_bytes += item.bytes();
  }
  keep(std::move(made), directory);
}

void Engine::restored(const Manifest& manifest, const std::string& directory) {
  if (!settings_.reuse) return;
  kept_.reset();
  waited_ = 0;
  KeptFile found = find_kept_file(manifest, settings_.writer);
  if (!found.items.empty()) keep(std::move(found), directory);
}

void Engine::warm(uint64_t bytes, const MemoryPlace& place) {
  if (prefaulter_.busy() || !make_staging({bytes})) return;
  ignore(prefaulter_.run([this, place] {
    if (!place.on_host()) staging_->pin(place);
    staging_->prefault();
  }),
         "only the first save is slower");
}

}  // namespace dl::ckpt
