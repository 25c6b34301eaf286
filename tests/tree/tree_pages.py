"""The Markdown files of the tree, for the checks of this folder."""
import subprocess


def pages(root):
    """Names below `root`, sorted. Of a tarball, which git does not know, all but those of a build."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], capture_output=True, text=True,
                            check=False).stdout.split()
    listed = listed or [path.relative_to(root).as_posix() for path in root.rglob("*.md") if "build" not in path.relative_to(root).parts]
    return sorted(name for name in listed if (root / name).is_file())
