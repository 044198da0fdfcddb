// SPDX-License-Identifier: Apache-2.0
// Setters for values of dl.toml, used by the readers of its sections: each checks a value and copies it to *out. On an
// error all return kInvalid "VALUE is not accepted; allowed: ..." and leave *out unchanged; the caller puts file, line
// and key in front.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/contract/request_values.h"
#include "common/site/toml_text.h"

namespace dl {

constexpr size_t kMaxPathBytes = 1024;

// Makes the error described above; the value is made printable.
Error bad_value(const toml::node& node, const std::string& allowed);

// Puts "FILE:LINE: KEY: " in front of an error about this node.
Error place(const toml::node& node, const std::string& file, const std::string& key, Error error);

// Calls `read` with the name and the table of each [SECTION.NAME], of which at most `most` are allowed. what: the
// thing, in the singular ("tenant"); of_name: what the name names; both for messages. Errors of `read` must already
// name their place.
Status each_table(const toml::node& node, const std::string& file, const std::string& section, size_t most,
                  const std::string& what, const std::string& of_name,
                  const std::function<Status(const std::string& name, const toml::table& table)>& read);

Status set_int(const toml::node& node, int min, int max, int* out);
// A finite number, with or without a fraction.
Status set_number(const toml::node& node, double min, double max, double* out);
// A number of seconds, or a text such as "10m".
Status set_time(const toml::node& node, std::chrono::seconds min, std::chrono::seconds max, std::chrono::seconds* out);
// A number of bytes, or a text such as "64MiB". 0, or from `min` to `max`.
Status set_bytes(const toml::node& node, uint64_t min, uint64_t max, uint64_t* out);
Status set_bool(const toml::node& node, bool* out);
// A plain name (parse.h). `what` says what it names, for the message.
Status set_name(const toml::node& node, const char* what, std::string* out);
// An array of 1 to `most` plain names. `what` says in the plural what they name, for the message.
Status set_names(const toml::node& node, const char* what, size_t most, std::vector<std::string>* out);
Status set_tier(const toml::node& node, Tier* out);
// [network]: "nftables" or "off"; addresses and prefixes; names with one %n in each.
Status set_network_enforced(const toml::node& node, bool* out);
Status set_prefixes(const toml::node& node, std::vector<std::string>* out);
Status set_node_names(const toml::node& node, std::vector<std::string>* out);

// Whether the path has 1 to kMaxPathBytes bytes and no control characters.
bool is_clean_path(const std::string& path);

}  // namespace dl
