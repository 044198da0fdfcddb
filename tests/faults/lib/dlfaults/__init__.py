# SPDX-License-Identifier: Apache-2.0
"""The fault matrix: faults and phases (tables), the sandbox it runs in, one cell, its judge, the table of results."""
