"""The command lines of a run, for whoever wants to do it again: the first of each kind; what differs in numbers alone is of one
kind."""
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_kept = {}  # section: {kind: text}
_section = ['']


def begin(section):
    _section[0] = section


def note(argv, folder=None):
    """Keeps a command line; what is in the run's own folder is said without it."""
    words = [str(w) for w in argv]
    words[0] = os.path.basename(words[0])
    text = ' '.join(words).replace(ROOT + '/', '')
    if folder:
        text = text.replace(folder + '/', '').replace(folder, '.')
    _kept.setdefault(_section[0], {}).setdefault(re.sub(r'\d+', '#', text), text)


def of(section):
    return list(_kept.get(section, {}).values())
