"""The benchmark datasets with their real YAML files, from a local server with miniatures of the archives."""

import csv
import hashlib

import yaml

from support.datasets import miniatures
from support.project import Project
from support.services.servers import Answer, serving

# the dataset's YAML, its miniature and its format
FORMS = {
    "cub200": ("cub200", "cub200", None),
    "cars196": ("cars196", "cars196_original", None),
    "cars196_devkit": ("cars196", "cars196_devkit", "devkit"),
    "sop": ("sop", "sop", None),
    "inshop": ("inshop", "inshop", None),
    "inat_mini": ("inat_mini", "inat_mini", None),
    "inat2018": ("inat2018", "inat2018", None),
}
EXPECTED = {
    "cub200": {"images": 12, "splits": [{"scheme": "class_halves", "images": {"train": 6, "test": 6}}]},
    "cars196": {"images": 24, "splits": [{"scheme": "class_halves", "images": {"train": 12, "test": 12}}]},
    "sop": {"images": 18, "splits": [{"scheme": "official", "images": {"train": 10, "test": 8}}]},
    "inshop": {"splits": [{"scheme": "official", "images": {"train": 12, "query": 4, "gallery": 4}}]},
    "inat2018": {"splits": [{"scheme": "official", "images": {"train": 6, "test": 4}}]},
    "inat_mini": {
        "splits": [{"scheme": "halves_by_super_label", "seed": 0, "images": {"train": 9, "test": 6}}],
    },
}


def miniature_yaml(project, server, name, archives):
    """The real YAML, with the URLs, checksums and counts of the miniature."""
    source, form, distribution = FORMS[name]
    dataset = yaml.safe_load(project.read(f"config/datasets/{source}.yaml"))
    dataset["expected"] = EXPECTED[source]
    dataset["options"].pop("known_images", None)
    if distribution:
        dataset["distribution"] = distribution
    parts = dataset.get("distributions", {"": dataset})
    for entry in (entry for version in parts.values() for entry in version["files"]):
        if entry["path"] not in archives:
            continue
        data = archives[entry["path"]].read_bytes()
        if entry.get("unverified"):  # as if downloaded by hand
            target = project.path(f"resources/drop/{name}/{entry['path']}")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        else:
            for key, value in (("size", len(data)), ("sha256", hashlib.sha256(data).hexdigest())):
                if key in entry:
                    entry[key] = value
            if "md5" in entry:
                entry["md5"] = hashlib.md5(data, usedforsecurity=False).hexdigest()
            entry["from"] = [{"url": server.give(f"/{form}/{entry['path']}", Answer(data))}]
    project.write(f"config/datasets/{name}.yaml", yaml.safe_dump(dataset, sort_keys=False))


def rows(project, name):
    with project.path(f"resources/datasets/{name}/images.csv").open() as file:
        return list(csv.DictReader(file))


def test_all_datasets_are_fetched_unpacked_and_indexed(tmp_path):
    project = Project.create(tmp_path / "project", classes=2, per_class=1)
    with serving() as server:
        for name, (_, form, _) in FORMS.items():
            tree = getattr(miniatures, f"make_{form}")(tmp_path / "trees" / name)
            archives = miniatures.make_archives(form, tree, tmp_path / "archives" / name)
            miniature_yaml(project, server, name, {path.name: path for path in archives})
        project.succeed("--cores", "2", "data", "--config", f"datasets=[{','.join(FORMS)}]")
    for name, images in (
        ("cub200", 12),
        ("cars196", 24),
        ("sop", 18),
        ("inshop", 20),
        ("inat_mini", 15),
        ("inat2018", 10),
    ):
        result = rows(project, name)
        assert len(result) == images
        assert all(project.path(f"resources/datasets/{name}/images/{row['path']}").is_file() for row in result)

    def contents(name):
        folder = project.path(f"resources/datasets/{name}/images")
        return [
            (hashlib.sha256((folder / row["path"]).read_bytes()).hexdigest(), row["label"])
            for row in rows(project, name)
        ]

    assert contents("cars196") == contents("cars196_devkit"), "both formats give the same index"
    assert rows(project, "cars196") != rows(project, "cars196_devkit")
