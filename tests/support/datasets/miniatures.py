"""The benchmark datasets with a few tiny images each, in the exact layout of the official archives.

``make_<dataset>(folder)`` writes the tree that unpacking the official files gives; ``make_archives(form, folder, to)``
makes the files themselves from it, under their official names. Nothing is downloaded.
"""

import io
import json
import random
import shutil
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import scipy.io
from PIL import Image

# Content of the official files of each form, as paths below the unpacked tree; files that are not archives are copied.
ARCHIVES = {
    "cub200": {"CUB_200_2011.tgz": ["CUB_200_2011", "attributes.txt"]},
    "cars196_original": {"car_ims.tgz": ["car_ims"], "cars_annos.mat": ["cars_annos.mat"]},
    "cars196_devkit": {
        "cars_train.tgz": ["cars_train"],
        "cars_test.tgz": ["cars_test"],
        "car_devkit.tgz": ["devkit"],
        "cars_test_annos_withlabels.mat": ["cars_test_annos_withlabels.mat"],
    },
    "sop": {"Stanford_Online_Products.zip": ["Stanford_Online_Products"]},
    "inshop": {"img.zip": ["img"], "list_eval_partition.txt": ["list_eval_partition.txt"]},
    "inat2018": {"train_val2018.tar.gz": ["train_val2018"], "Inat_dataset_splits.zip": ["Inat_dataset_splits"]},
    "inat_mini": {"train_mini.tar.gz": ["train_mini"], "train_mini.json.tar.gz": ["train_mini.json"]},
}


def picture(number: int, mode: str = "RGB", size: tuple[int, int] = (12, 9)) -> bytes:
    """A small JPEG, different for each number."""
    generator = np.random.default_rng(number)
    noise = generator.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).convert(mode).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def write(path: Path, content: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def make_cub200(folder: Path, classes: int = 4, per_class: int = 3) -> Path:
    """CUB-200-2011. As in the original, images.txt is not sorted by file name, and some photos are grey."""
    home, rows = folder / "CUB_200_2011", []
    birds = ["Black_footed_Albatross", "Laysan_Albatross", "Sooty_Albatross", "Groove_billed_Ani", "Crested_Auklet"]
    names = [f"{number:03d}.{birds[(number - 1) % len(birds)]}" for number in range(1, classes + 1)]
    for number, name in enumerate(names, start=1):
        for place in reversed(range(per_class)):
            path = f"{name}/{name[4:]}_{place:04d}_{100 * number + place}.jpg"
            write(home / "images" / path, picture(len(rows), "L" if len(rows) == 1 else "RGB"))
            rows.append((len(rows) + 1, path, number))
    write(home / "images" / names[0] / "._hidden.jpg", "of macOS")
    write(home / "images.txt", "".join(f"{image} {path}\n" for image, path, _ in rows))
    write(home / "image_class_labels.txt", "".join(f"{image} {number}\n" for image, _, number in rows))
    write(home / "classes.txt", "".join(f"{number} {name}\n" for number, name in enumerate(names, start=1)))
    write(home / "train_test_split.txt", "".join(f"{image} {image % 2}\n" for image, _, _ in rows))
    write(home / "bounding_boxes.txt", "".join(f"{image} 1.0 1.0 8.0 6.0\n" for image, _, _ in rows))
    write(home / "parts" / "parts.txt", "1 back\n")
    write(home / "attributes" / "certainties.txt", "1 not visible\n")
    write(home / "README", "Caltech-UCSD Birds-200-2011\n")
    write(folder / "attributes.txt", "1 has_bill_shape::curved_(up_or_down)\n")
    return folder


CARS = ["AM General Hummer SUV 2000", "Acura RL Sedan 2012", "Ram C/V Cargo Van Minivan 2012", "smart fortwo 2012"]


def cars(per_class: int = 6) -> list[tuple[int, bytes]]:
    """Class and file of every car, in the original order, which is only roughly by class."""
    photos = [(1 + number // per_class, picture(1000 + number)) for number in range(per_class * len(CARS))]
    photos[per_class - 1], photos[per_class] = photos[per_class], photos[per_class - 1]
    return photos


def make_cars196_original(folder: Path) -> Path:
    records = []
    for number, (label, content) in enumerate(cars(), start=1):
        path = f"car_ims/{number:06d}.jpg"
        write(folder / path, content)
        records.append((path, 1, 2, 8, 7, label, number % 2))
    save_mat(
        folder / "cars_annos.mat",
        ("relative_im_path", "bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "test"),
        records,
        class_names=CARS,
    )
    return folder


def make_cars196_devkit(folder: Path) -> Path:
    """Cars196 in the devkit form: the same photos in another order, in two folders that are both numbered from 1."""
    shuffled = cars()
    random.Random(5).shuffle(shuffled)
    half = len(shuffled) // 2 + 1
    fields = ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "fname")
    for role, chosen in (("train", shuffled[:half]), ("test", shuffled[half:])):
        records = []
        for number, (label, content) in enumerate(chosen, start=1):
            write(folder / f"cars_{role}" / f"{number:05d}.jpg", content)
            records.append((1, 2, 8, 7, label, f"{number:05d}.jpg"))
        if role == "train":
            save_mat(folder / "devkit/cars_train_annos.mat", fields, records)
        else:
            save_mat(folder / "cars_test_annos_withlabels.mat", fields, records)
            unlabelled = [(*record[:4], record[5]) for record in records]
            save_mat(folder / "devkit/cars_test_annos.mat", fields[:4] + fields[5:], unlabelled)
    save_mat(folder / "devkit/cars_meta.mat", class_names=CARS)
    write(folder / "devkit/README.txt", "This file gives documentation for the cars 196 dataset.\n")
    write(folder / "devkit/train_perfect_preds.txt", "1\n")
    return folder


def make_cars196_class_folders(folder: Path) -> Path:
    """Cars196 as on a mirror: one folder per class below train and test, renamed files, and the class names."""
    for number, (label, content) in enumerate(cars()):
        role = "train" if number % 3 else "test"
        write(folder / "car_data" / role / CARS[label - 1].replace("/", "-") / f"photo_{number}.jpg", content)
    save_mat(folder / "cars_meta.mat", class_names=CARS)
    return folder


def save_mat(path: Path, fields: tuple = (), records: list = (), class_names: list = ()) -> None:
    """MATLAB's layout: `annotations` is a 1×N struct array, `class_names` a 1×K cell array."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {}
    if fields:
        array = np.empty((1, len(records)), dtype=[(name, object) for name in fields])
        for number, record in enumerate(records):
            array[0, number] = tuple(value if isinstance(value, str) else np.uint16([[value]]) for value in record)
        content["annotations"] = array
    if class_names:
        content["class_names"] = np.array([class_names], dtype=object)
    scipy.io.savemat(path, content)


def make_sop(folder: Path, train: int = 5, test: int = 4) -> Path:
    """Stanford Online Products: five training and four test classes of two categories, two photos per class."""
    home = folder / "Stanford_Online_Products"
    header, image = "image_id class_id super_class_id path\n", 0
    lists = {"train": header, "test": header}
    for label in range(1, train + test + 1):
        kind, number = ("bicycle", 1) if label % 2 else ("coffee_maker", 4)
        role = "train" if label <= train else "test"
        for place in range(2):
            image += 1
            path = f"{kind}_final/1110851228{label:02d}_{place}.JPG"
            write(home / path, picture(2000 + image, "L" if image == 3 else "RGB"))
            lists[role] += f"{image} {label} {number} {path}\n"
    for role, text in lists.items():
        write(home / f"Ebay_{role}.txt", text)
    write(home / "Ebay_info.txt", header + lists["train"].removeprefix(header) + lists["test"].removeprefix(header))
    write(home / "bicycle_final.txt", "1\n")
    return folder


def make_inshop(folder: Path) -> Path:
    """In-Shop: three items for training and two for queries; columns are padded with blanks, as in the original."""
    rows = []
    for item, place, role in (
        (2, "WOMEN/Dresses", "train"),
        (5, "MEN/Denim", "train"),
        (9, "WOMEN/Tees_Tanks", "train"),
        (1, "WOMEN/Blouses_Shirts", "asked"),
        (7, "WOMEN/Tees_Tanks", "asked"),
    ):
        for number, view in enumerate(("1_front", "2_side", "3_back", "7_additional")):
            status = role if role == "train" else ("gallery", "query")[number % 2]
            rows.append((f"img/{place}/id_{item:08d}/02_{view}.jpg", f"id_{item:08d}", status))
    for number, (path, _, _) in enumerate(rows):
        write(folder / path, picture(3000 + number))
    text = f"{len(rows)}\nimage_name item_id evaluation_status\n"
    text += "".join(f"{path:<70} {item} {status}\n" for path, item, status in rows)
    write(folder / "list_eval_partition.txt", text)
    return folder


SPECIES = [
    ("Animalia_Chordata_Aves_Strigiformes_Strigidae_Bubo_bubo", "Birds"),
    ("Animalia_Chordata_Aves_Passeriformes_Corvidae_Pica_pica", "Birds"),
    ("Animalia_Chordata_Aves_Piciformes_Picidae_Picus_viridis", "Birds"),
    ("Fungi_Basidiomycota_Agaricomycetes_Agaricales_Amanitaceae_Amanita_muscaria", "Fungi"),
    ("Fungi_Basidiomycota_Agaricomycetes_Boletales_Boletaceae_Boletus_edulis", "Fungi"),
]


def make_inat_mini(folder: Path, per_class: int = 3) -> Path:
    images, annotations, categories = [], [], []
    for category, (name, group) in enumerate(SPECIES):
        directory = f"{category:05d}_{name}"
        words = name.split("_")
        categories.append(
            {
                "id": category,
                "name": " ".join(words[-2:]),
                "common_name": words[-1],
                "supercategory": group,
                "kingdom": words[0],
                "genus": words[-2],
                "specific_epithet": words[-1],
                "image_dir_name": directory,
            }
        )
        for place in range(per_class):
            number = 10 * category + place
            path = f"train_mini/{directory}/{number:08x}-0f13-4d3b-9a9b-000000000000.jpg"
            write(folder / path, picture(4000 + number, size=(16, 10)))
            images.append({"id": number, "width": 16, "height": 10, "file_name": path, "license": 1})
            annotations.append({"id": number, "image_id": number, "category_id": category})
    random.Random(1).shuffle(images)
    content = {"info": {"year": 2021}, "images": images, "annotations": annotations, "categories": categories}
    write(folder / "train_mini.json", json.dumps({**content, "licenses": [{"id": 1}]}))
    return folder


def make_inat2018(folder: Path, per_class: int = 2) -> Path:
    """iNaturalist 2018 with the lists of Smooth-AP: three species for training and two for testing."""
    lists = {"train": "", "test": ""}
    for group, species, role in (
        ("Plantae", 7477, "train"),
        ("Aves", 3013, "train"),
        ("Fungi", 5605, "test"),
        ("Aves", 3014, "train"),
        ("Plantae", 5606, "test"),
    ):
        for place in range(per_class):
            path = f"train_val2018/{group}/{species}/{species:028x}{place:04x}.jpg"
            write(folder / path, picture(5000 + 10 * species + place, size=(16, 10)))
            lists[role] += f"{path}\n"
    for role, text in lists.items():
        write(folder / "Inat_dataset_splits" / f"Inaturalist_{role}_set1.txt", text)
    return folder


def make_archives(form: str, tree: Path, to: Path) -> list[Path]:
    """Make the official files of a form from its tree."""
    to.mkdir(parents=True, exist_ok=True)
    for name, members in ARCHIVES[form].items():
        if name.endswith((".tgz", ".tar.gz")):
            with tarfile.open(to / name, "w:gz") as tar:
                for member in members:
                    tar.add(tree / member, member)
        elif name.endswith(".zip"):
            with zipfile.ZipFile(to / name, "w") as archive:
                for member in members:
                    for path in sorted((tree / member).rglob("*")):
                        archive.write(path, path.relative_to(tree).as_posix())
        else:
            shutil.copy(tree / members[0], to / name)
    return [to / name for name in ARCHIVES[form]]
