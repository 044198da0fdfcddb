# SPDX-License-Identifier: Apache-2.0
"""`dlctl export`: the metrics of a job for MLflow and W&B, written by their own Python packages."""
