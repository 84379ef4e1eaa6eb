"""`python -m pomona`: the command `pomona` where it is not on the PATH."""

from pomona.cli.main import main

if __name__ == "__main__":
    main()
