// SPDX-License-Identifier: Apache-2.0
// The mutators that know the form of one target's input. Each returns nothing where the input has not that form, or
// the result would be larger than `max_size`; then libFuzzer's own is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace dl::ckpt::fuzz {

std::optional<std::string> mutate_log_index(const std::string& input, uint32_t seed, size_t max_size);
std::optional<std::string> mutate_pool_messages(const std::string& input, uint32_t seed, size_t max_size);
std::optional<std::string> mutate_data_journal(const std::string& input, uint32_t seed, size_t max_size);
std::optional<std::string> mutate_data_manifest(const std::string& input, uint32_t seed, size_t max_size);
std::optional<std::string> mutate_rclone_lines(const std::string& input, uint32_t seed, size_t max_size);
std::optional<std::string> mutate_web_headers(const std::string& input, uint32_t seed, size_t max_size);

}  // namespace dl::ckpt::fuzz
