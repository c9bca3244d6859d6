"""Speed of k-means and bisecting consensus against scikit-learn and faiss. Run: python benchmarks/speed.py --help"""

import argparse
import sys

from coassoc.experiments import speed as _speed

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=_speed.DESCRIPTION, epilog=_speed.EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _speed.add_arguments(parser)
    sys.exit(_speed.run(parser.parse_args()))
