// SPDX-License-Identifier: Apache-2.0
// Texts for a screen of characters: made harmless, as wide as they are on a terminal, cut and padded. Pure, but for
// what show_letters() has set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dl::top {

// The places that the text takes on a terminal: East Asian characters and pictures take two, accents none. The text has
// no control characters.
size_t columns_of(std::string_view text);

// The text, cut to so many places; `end` ("…", "~") stands where something is missing. Never wider than `columns`.
std::string cut(std::string_view text, size_t columns, std::string_view end);

// The same, filled with blanks up to `columns`.
std::string fitted(std::string_view text, size_t columns, std::string_view end, bool right = false);

// A line that somebody's program has written, as one line of text: of what a progress bar has overwritten the last
// version, no colours, a blank for each tab, and all other control characters as \xNN. At most about `most` characters.
std::string harmless(std::string_view line, size_t most);

// "45s", "12m", "3h05m", "4d02h"; "-" for none.
std::string time_text(std::optional<int64_t> ms);
// "0.033", "2.35", "23.5", "1234", "5.3e+07"; "-" for none.
std::string number_text(std::optional<double> value);
// CPUs that are busy: "0.00", "3.25", "120"; "-" for none. Nobody cares for thousandths.
std::string cpus_text(std::optional<double> cpus);

}  // namespace dl::top
