"""The exception tree.

UnmaskError
└── UserError            one clear line, exit status 2, never a traceback
    ├── ConfigError      a recipe or an option is wrong
    ├── InputError       a file, a text or a column is not what it should be
    ├── OutputError      the disk is full, or the place to write is taken
    ├── CorpusError      a folder of shards is unfinished, damaged or made for another tokenizer
    └── ModelError       a model or tokenizer folder cannot be used
"""


class UnmaskError(Exception):
    """Base of everything unmask raises on purpose."""


class UserError(UnmaskError):
    """Something the user can mend: the message says what is wrong and how."""


class ConfigError(UserError):
    """A recipe or an option is wrong."""


class InputError(UserError):
    """A file, a text or a column is not what it should be."""


class OutputError(UserError):
    """The disk is full, or the place to write to is taken."""


class CorpusError(UserError):
    """A folder of shards is unfinished, damaged, or made for another tokenizer."""


class ModelError(UserError):
    """A model or tokenizer folder cannot be used."""
