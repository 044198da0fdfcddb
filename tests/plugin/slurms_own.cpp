// SPDX-License-Identifier: Apache-2.0
// A plugin of a Slurm 29.11.77, for loader.cpp.
extern "C" {
extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;
const char plugin_name[] = "a plugin of Slurm's own";
const char plugin_type[] = "auth/munge";
const unsigned int plugin_version = 0x1d0b4d;
}
