"""The verbs of the command line, one file each: `show.py` defines the function `show`, its signature is the interface.

`pomona.cli.verbs` finds the files; GROUP says under which heading `pomona --help` lists one. Options that several
commands have come from `pomona.cli.options`. Import anything heavy (NumPy, Numba, pyarrow, SciPy, torch) inside the
function, so that `pomona VERB --help` is quick. Commands may call each other's functions.
`tests/contracts/test_commands.py` says what every command must do.
"""
