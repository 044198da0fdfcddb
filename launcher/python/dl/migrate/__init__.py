# SPDX-License-Identifier: Apache-2.0
"""``dlctl migrate``: rewrites another launcher's batch script, or FfDL's manifest.yml, with --dl-* flags and dlrun."""
