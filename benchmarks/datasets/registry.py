"""The data sets of the paper (but gisette, of which no copy was at hand): what they are, how they are prepared."""

from __future__ import annotations

from dataclasses import dataclass, replace

_UCI = "https://archive.ics.uci.edu/static/public"
_CC_BY = "CC BY 4.0 as stated by the UCI repository; check the set's own page before passing it on"


@dataclass(frozen=True)
class DatasetInfo:
    """Facts about a data set that are known before it is read.

    `n_features` counts the columns after preparation; `digest` is the sha256 of the sorted rows of cells (see
    ``cell_digest``), empty where no copy could be checked.
    """

    name: str
    title: str
    n_samples: int
    n_features: int
    n_classes: int
    provenance: str
    preparation: str
    digest: str = ""
    licence: str = _CC_BY
    nominal: tuple[str, ...] = ()
    n_missing: int = 0
    scaling: str = "raw"
    package: str = ""
    url: str = ""
    members: tuple[str, ...] = ()
    note: str = ""


# sha256 of the sorted rows of cells
_DIGESTS = {
    "abalone": "cc6f65e28e9756cd8ee43e76d786b5bb6b70adeef0a1e5cfb1bfa14d1d059ed5",
    "advertisement": "7c8ffb02671c1c60e6e7938ab5e68df4e774f78f9a4a20a9458dcb69ba57227f",
    "breastcancer": "7d3ab8c05a262fe27336c5f75b9fc315935cb7ea028292c5fc3a7c644d9ab453",
    "contraceptive": "586db131ddef2826860a38edefc8de6f5908e8563e9da875912b922bc83595a8",
    "drybean": "2e0db114b5e04305956a24d26912eadeabada49729fe57c3eb5f3ef18991701f",
    "ecoli": "c753356384b174f9bff150ffb442a0af1c97e5ccae166971fc3b15137e9646cd",
    "glass": "22b71e6089c281b42bbf94ff68b0478c094872f7f1537a61f83ff03d788a5dda",
    "ionosphere": "3e4e4ea5dbfc0099366dd25076bd273a0bc555ad4f23460f03c34e0474eb58f9",
    "landstat": "dd01fc47a217f25a057d96944e0a6e05a052140d7150d8e475d8f78f72e0cadc",
    "letter_recognition": "7dc5ef2cb08fb6962ac747c618be894185ca1a0ec4580f2a3ca16385eff91508",
    "musk": "10c7da4d3647dc2da116516c5f2581cde21d75ead9a454be525dce37653a6507",
    "nursery": "62747770a08a447e57fd273ee54c822536277c0ba53a758bcb98bb969efde880",
    "pendigits": "86cfcd96a2e7a3590e9de5fde7502909729ba6d773fde940c7738ba7d73113a1",
    "user_knowledge": "cc68a70db8084b73935ff83d753bbffe57032c8645d0bed9ab29193395487714",
    "yeast": "69b784b6efb0e60e233d22766d0da9b50a269e8ab348dab900549998b3a2d851",
}

_NUMERIC = "numeric columns as they are"
_MEAN = "missing cells take the mean of their column"
_SETS = (
    DatasetInfo(
        "abalone", "Abalone", 4177, 8, 28, "UCI 1, W. Nash and others 1994",
        "sex coded F=0, I=1, M=2; classes are ring counts", nominal=("sex",), scaling="minmax",
        package="abalone/abalone.data.txt", url=f"{_UCI}/1/abalone.zip", members=("abalone.data",),
    ),
    DatasetInfo(
        "advertisement", "Internet Advertisements", 3279, 1558, 2, "UCI 51, N. Kushmerick 1998",
        f"{_NUMERIC}; {_MEAN} (2729 in the first four columns)", n_missing=2729,
        url=f"{_UCI}/51/internet+advertisements.zip", members=("ad.data",),
    ),
    DatasetInfo(
        "breastcancer", "Breast Cancer Wisconsin (Original)", 699, 9, 2, "UCI 15, W. Wolberg 1990",
        f"identifier dropped; {_MEAN} (16 in bare nuclei)", n_missing=16,
        url=f"{_UCI}/15/breast+cancer+wisconsin+original.zip", members=("breast-cancer-wisconsin.data",),
    ),
    DatasetInfo(
        "contraceptive", "Contraceptive Method Choice", 1473, 9, 3, "UCI 30, T.-S. Lim 1997",
        "integer codes as in the original", package="contraceptive/contraceptive.dat",
        url=f"{_UCI}/30/contraceptive+method+choice.zip", members=("cmc.data",),
    ),
    DatasetInfo(
        "drybean", "Dry Bean", 13611, 16, 7, "UCI 602, M. Koklu and I. A. Ozkan 2020", _NUMERIC,
        url=f"{_UCI}/602/dry+bean+dataset.zip", members=("DryBeanDataset/Dry_Bean_Dataset.arff",),
    ),
    DatasetInfo(
        "ecoli", "Ecoli", 336, 7, 8, "UCI 39, K. Nakai 1996", "sequence name dropped",
        package="ecoli/ecoli.data.txt", url=f"{_UCI}/39/ecoli.zip", members=("ecoli.data",),
    ),
    DatasetInfo(
        "glass", "Glass Identification", 214, 9, 6, "UCI 42, B. German 1987", "identifier dropped",
        package="glass/glass.data.txt", url=f"{_UCI}/42/glass+identification.zip", members=("glass.data",),
    ),
    DatasetInfo(
        "ionosphere", "Ionosphere", 351, 34, 2, "UCI 52, V. Sigillito and others 1989", _NUMERIC,
        url=f"{_UCI}/52/ionosphere.zip", members=("ionosphere.data",),
    ),
    DatasetInfo(
        "landstat", "Statlog (Landsat Satellite)", 6435, 36, 6, "UCI 146, A. Srinivasan 1993",
        "training then test rows", package="satimage/sat.trn.txt satimage/sat.tst.txt",
        url=f"{_UCI}/146/statlog+landsat+satellite.zip", members=("sat.trn", "sat.tst"),
        note="spelled as in the paper",
    ),
    DatasetInfo(
        "letter_recognition", "Letter Recognition", 20000, 16, 26, "UCI 59, D. Slate 1991", _NUMERIC,
        url=f"{_UCI}/59/letter+recognition.zip", members=("letter-recognition.data",),
        note="listed in the paper without results",
    ),
    DatasetInfo(
        "musk", "Musk (versions 1 and 2)", 7074, 166, 2, "UCI 74 and 75, D. Chapman and A. Jain 1994",
        "molecule and conformation names dropped; version 1 then version 2",
        note="no download: the originals are files of the Unix compress format",
    ),
    DatasetInfo(
        "nursery", "Nursery", 12960, 27, 5, "UCI 76, V. Rajkovic and others 1997", "one-hot of the 8 columns",
        nominal=("parents", "has_nurs", "form", "children", "housing", "finance", "social", "health"),
        licence="generated here from the rules of the published decision model",
    ),
    DatasetInfo(
        "pendigits", "Pen-Based Recognition of Handwritten Digits", 10992, 16, 10,
        "UCI 81, E. Alpaydin and F. Alimoglu 1998", "training then test rows",
        url=f"{_UCI}/81/pen+based+recognition+of+handwritten+digits.zip",
        members=("pendigits.tra", "pendigits.tes"),
    ),
    DatasetInfo(
        "user_knowledge", "User Knowledge Modeling", 403, 5, 4, "UCI 257, H. T. Kahraman and others 2013",
        "training then test sheet; the two spellings of very_low made one",
        note="no download: the original is a spreadsheet",
    ),
    DatasetInfo(
        "yeast", "Yeast", 1484, 8, 10, "UCI 110, K. Nakai 1996", "sequence name dropped",
        package="yeast/yeast.data.txt", url=f"{_UCI}/110/yeast.zip", members=("yeast.data",),
    ),
)  # fmt: skip

DATASETS = {info.name: replace(info, digest=_DIGESTS.get(info.name, "")) for info in _SETS}
