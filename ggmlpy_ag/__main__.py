"""`python -m ggmlpy_ag`."""

from .cli import main

raise SystemExit(main())
