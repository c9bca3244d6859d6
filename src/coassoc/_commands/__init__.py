"""The commands of the command line, one module each: EPILOG, add_arguments(parser), run(args) -> exit code."""
