"""For PyInstaller: what is loaded by name, and the files that are no modules.

Modules that often need other packages are excluded: the programs that use them import them.
"""

from PyInstaller.utils.hooks import collect_data_files, collect_submodules

IMPORTED = ("_pyinstaller", "compat", "fencing", "integrations", "observe", "testing", "_tools")

datas = collect_data_files("pyredisson")
hiddenimports = collect_submodules("pyredisson", lambda name: name.split(".")[1:2] not in [[each] for each in IMPORTED])
