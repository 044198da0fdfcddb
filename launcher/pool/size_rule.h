// SPDX-License-Identifier: Apache-2.0
// How many members a pool shall have. Pure: what it remembers from look to look is in a value that the caller keeps.
//
// The rule. Each member says how many members the pool should have, judged from its own state. The pool's own wish is
// the median of these; where two are in the middle, the one nearer to the present size, or the present size between
// them. It is kept within min and max. The size grows when the wish was above it in `grow_after` looks in a row, to the
// least of these wishes, and shrinks when it was below it in `shrink_after` looks in a row, to the greatest of them.
// After each change, and whenever a member came or went, wishes are not counted for `rest` looks, because they were
// formed in another pool. Each time that the size has to grow after it shrank, the wait before it shrinks again is
// doubled, up to `most_patience` times: an object that wants more when there are few and fewer when there are many
// cannot have members come and go without end.
#pragma once

#include <vector>

namespace dl::pool {

struct SizeRule {
  int min = 1, max = 1;  // 1 <= min <= max
  int grow_after = 2;    // looks; all are at least 1
  int shrink_after = 10;
  int rest = 5;
  int most_patience = 64;
};

struct SizeMemory {
  int size = 0;  // what was decided last; 0: nothing yet
  int present = -1;
  int above = 0, below = 0;  // looks in a row
  int least_above = 0, most_below = 0;
  int rest = 0;
  int patience = 1;
  bool shrank = false;  // the last change
};

// The median as described. wanted: not empty.
int median_wish(std::vector<int> wanted, int size);

// One look. wanted: of the members that have said something; may be empty. present: the members that there are. Returns
// the size that the pool shall have, from min to max; present may differ from it for as long as members take to start.
int next_size(const SizeRule& rule, const std::vector<int>& wanted, int present, SizeMemory* memory);

}  // namespace dl::pool
