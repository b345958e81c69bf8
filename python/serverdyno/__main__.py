"""`python -m serverdyno`, which is the same as `dyno`."""

from serverdyno.cli import main

if __name__ == "__main__":
    main()
