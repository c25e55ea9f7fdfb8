"""The flags of a command line."""

import shlex


def flags(command):
    """Flag -> its words, of what stands behind the script."""
    found, last = {}, None
    for word in shlex.split(command.split(" && ")[-1]):
        if word.startswith("-"):
            last = word
            found[last] = []
        elif last:
            found[last].append(word)
    return {name: " ".join(words) for name, words in found.items()}
