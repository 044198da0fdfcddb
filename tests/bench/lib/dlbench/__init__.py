# SPDX-License-Identifier: Apache-2.0
"""What every bench under tests/bench uses: alternate measuring, rows with targets, tables, plots, records."""
