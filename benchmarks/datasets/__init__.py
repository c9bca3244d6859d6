"""The data sets of the published evaluation, by name: where they come from and how they are prepared."""

from .loading import Dataset, DatasetUnavailable, dataset_info, from_csv, list_datasets, load
from .registry import DatasetInfo

__all__ = ["Dataset", "DatasetInfo", "DatasetUnavailable", "dataset_info", "from_csv", "list_datasets", "load"]
