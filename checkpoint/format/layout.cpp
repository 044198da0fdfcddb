// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/layout.h"

#include <algorithm>

#include "checkpoint/format/h5.h"
#include "checkpoint/format/h5_memory.h"
#include "checkpoint/format/user_block.h"

namespace dl::ckpt {
namespace {

// Rows that are kept free, because creating the table may itself move metadata behind it into more blocks.
constexpr size_t kSpareRows = 8;

// "Shard(0)" and so on, as PyTorch's DTensor names placements; "Box" if several dimensions are cut.
std::string placement(const LayoutItem& item) {
  if (item.replicated) return "Replicate";
  std::string cut;
  for (size_t d = 0; d < item.shape.size(); ++d) {
    if (item.box.extent[d] == item.shape[d]) continue;
    if (!cut.empty()) return "Box";
    cut = "Shard(" + std::to_string(d) + ")";
  }
  return cut.empty() ? "Whole" : cut;
}

Status describe_dataset(const h5::Id& dataset, const LayoutItem& item) {
  DL_TRY(h5::set_attribute(dataset, item.h5_path.compare(0, 9, "/_dlckpt/") == 0 ? "description" : "path", item.path));
  if (item.blob) return {};
  DL_TRY(h5::set_attribute(dataset, "dtype", item.dtype->name));
  DL_TRY(h5::set_attribute(dataset, "global_shape", item.shape));
  DL_TRY(h5::set_attribute(dataset, "offset", item.box.offset));
  DL_TRY(h5::set_attribute(dataset, "placement", placement(item)));
  DL_TRY(h5::set_attribute(dataset, "replicated", uint64_t{item.replicated ? 1U : 0U}));
  return {};
}

// Creates the datasets and notes their places.
Status add_datasets(const h5::Id& file, const std::vector<LayoutItem>& items, Layout* layout) {
  DL_TRY_ASSIGN(const h5::Id dataset_list, h5::dataset_creation());
  DL_TRY_ASSIGN(const h5::Id links, h5::link_creation());
  layout->at.reserve(layout->at.size() + items.size());
  for (const LayoutItem& item : items) {
    DL_TRY_ASSIGN(const h5::Id type, h5::stored_type(*item.dtype));
    DL_TRY_ASSIGN(const h5::Id dataset,
                  h5::create_dataset(file, item.h5_path, type, item.box.extent, links, dataset_list));
    DL_TRY(describe_dataset(dataset, item));
    const uint64_t bytes = volume(item.box.extent).value_or(0) * item.dtype->size;
    DL_TRY_ASSIGN(const uint64_t at, h5::data_offset(dataset, bytes == 0));
    layout->at.push_back(at);
    if (bytes >= kOwnBlocksFrom) layout->large.push_back(Extent{at, bytes});
  }
  std::sort(layout->large.begin(), layout->large.end(), [](const Extent& a, const Extent& b) { return a.at < b.at; });
  return {};
}

}  // namespace

Layout::Layout() : image(std::make_unique<SparseImage>()) {}
Layout::~Layout() = default;
Layout::Layout(Layout&&) noexcept = default;
Layout& Layout::operator=(Layout&&) noexcept = default;

void Layout::read_image(uint64_t offset, void* out, size_t size) const {
  image->read(offset, out, size);
}

Layout Layout::clone() const {
  Layout copy;
  *copy.image = image->clone();
  copy.file_size = file_size;
  copy.at = at;
  copy.table = table;
  copy.large = large;
  copy.blocks = blocks;
  return copy;
}

Result<Layout> lay_out(const std::vector<LayoutItem>& items) {
  DL_TRY_ASSIGN(const Layout begun, lay_out_template(items));
  return complete_layout(begun, {});
}

bool same_dataset(const LayoutItem& a, const LayoutItem& b) {
  return a.dtype == b.dtype && a.replicated == b.replicated && a.blob == b.blob && a.box == b.box &&
         a.shape == b.shape && a.h5_path == b.h5_path && a.path == b.path;
}

Result<Layout> lay_out_template(const std::vector<LayoutItem>& items, const std::vector<LayoutLink>& links) {
  Layout layout;
  MemoryDriver driver;  // outlives the file
  const h5::Quiet quiet;
  DL_TRY_ASSIGN(const h5::Id access, h5::file_access(items.size()));
  DL_TRY(driver.attach(access.get(), layout.image.get()));
  DL_TRY_ASSIGN(const h5::Id creation, h5::file_creation(kUserBlockBytes));
  DL_TRY_ASSIGN(h5::Id file, h5::create_file("memory", creation, access));
  DL_TRY(add_datasets(file, items, &layout));
  if (!links.empty()) {
    DL_TRY_ASSIGN(const h5::Id creation_of_links, h5::link_creation());
    for (const LayoutLink& link : links)
      DL_TRY(h5::create_external_link(file, link.h5_path, link.file, creation_of_links));
  }
  DL_TRY(h5::close_file(&file));
  layout.file_size = layout.image->size();
  return layout;
}

Result<Layout> complete_layout(const Layout& begun, const std::vector<LayoutItem>& more) {
  Layout layout = begun.clone();
  MemoryDriver driver;  // outlives the file
  const h5::Quiet quiet;
  DL_TRY_ASSIGN(const h5::Id access, h5::file_access(more.size() + 1));
  DL_TRY(driver.attach(access.get(), layout.image.get()));
  DL_TRY_ASSIGN(h5::Id file, h5::open_file("memory", access));
  DL_TRY(add_datasets(file, more, &layout));

  DL_TRY_ASSIGN(const uint64_t size_before, h5::file_size(file));
  const size_t rows = cut_blocks(kUserBlockBytes, size_before, Extent{}, layout.large).size() + kSpareRows;
  {
    DL_TRY_ASSIGN(const h5::Id dataset_list, h5::dataset_creation());
    DL_TRY_ASSIGN(const h5::Id links, h5::link_creation());
    DL_TRY_ASSIGN(const h5::Id type, h5::table_row_type());
    DL_TRY_ASSIGN(const h5::Id table,
                  h5::create_dataset(file, "/_dlckpt/blocks", type, {static_cast<int64_t>(rows)}, links, dataset_list));
    DL_TRY(h5::set_attribute(table, "format_version", uint64_t{kFormatVersion}));
    DL_TRY_ASSIGN(layout.table.at, h5::data_offset(table, false));
    layout.table.length = rows * kTableRowBytes;
  }
  DL_TRY(h5::close_file(&file));

  layout.file_size = layout.image->size();
  layout.blocks = cut_blocks(kUserBlockBytes, layout.file_size, layout.table, layout.large);
  if (layout.blocks.size() > rows)
    return Error{Errc::kInternal, "the block table is too small: " + std::to_string(layout.blocks.size()) +
                                      " blocks, " + std::to_string(rows) + " rows"};
  return layout;
}

}  // namespace dl::ckpt
