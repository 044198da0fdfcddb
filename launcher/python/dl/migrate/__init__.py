# SPDX-License-Identifier: Apache-2.0
"""What ``dlctl migrate`` does: a batch script of another launcher, or FfDL's manifest.yml, said with --dl-* flags and dlrun."""
