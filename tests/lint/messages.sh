#!/usr/bin/env bash
# What a program tells a person is a sentence: what is wrong, the value, what is allowed, what to do. This test holds the part
# of that rule which a program can check; tests/lint/message_rules.py has the patterns, and the few messages that may break one.
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
cd "$top_srcdir" || exit 1
messages=tests/lint/message_rules.py
sources() { project_files | grep -E '^(common|frameworks|launcher|slurm-plugin|checkpoint)/.*\.(cpp|h|hpp|py)$'; }
scripts() { printf '%s\n' quickstart run-tests packaging/build-tree packaging/check-* packaging/install-*; }
check "messages tell in plain words what is wrong, with the value and what is allowed" "$({ sources && scripts; } | xargs python3 "$messages")"

# The rules themselves: each bad message is found, and by its rule; the good ones pass.
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
while IFS='|' read -r rule line; do
  printf '%s\n' "$line" >"$place/bad.cpp"
  found=$(python3 "$messages" "$place/bad.cpp")
  check "a message is found that breaks the rule: $rule" "$(grep -qF -- "$rule" <<<"$found" || echo "$line gives '$found'")"
done <<'END'
no exclamation mark|return Error{Errc::kInvalid, "the value is wrong!"};
one space between words|return Error{Errc::kInvalid, "the value  is wrong"};
no riddle|return Error{Errc::kInvalid, "'x' stands there twice"};
no riddle|return fail("rank 0 said something that cannot be read");
no riddle|return refuse(text, "is no rank; allowed: 0 to 3");
no value|return Error{Errc::kInvalid, "invalid argument"};
no value|return Error{Errc::kInvalid, "bad value"};
no blame|return Error{Errc::kInvalid, "you forgot --learners"};
no full stop|return Error{Errc::kInvalid, "the value 7 is out of range; allowed: 0 to 3."};
what is allowed|return Error{Errc::kInvalid, "op: " + std::to_string(op) + " is out of range"};
what is allowed|return Error{Errc::kInvalid, "mode: " + std::to_string(mode) + " is unknown"};
END
printf 'problems += ["bad value"]\nwords: list = ["bad value"]\n' >"$place/bad.py"
check "messages that a Python file adds to others are found, too" "$([ "$(python3 "$messages" "$place/bad.py" | wc -l)" = 2 ] || echo "not both")"
cat >"$place/good.cpp" <<'END'
return Error{Errc::kInvalid, "'" + text + "' is not a number of learners; allowed: 1 to 4096; for example --dl-learners=4"};
return Error{Errc::kInvalid, fmt::format("op: {} is out of range; allowed: 0 to {}", op, most)};
// A comment may say it!  With two spaces.
if (text != "x" && !text.empty()) return {};
END
check "good messages pass" "$(python3 "$messages" "$place/good.cpp")"
finish
