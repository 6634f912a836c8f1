"""For PyInstaller: the commands of ``pyredisson``, each of which is loaded by its name."""

from PyInstaller.utils.hooks import collect_submodules

hiddenimports = collect_submodules("pyredisson._tools")
