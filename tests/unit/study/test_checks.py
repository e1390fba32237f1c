"""Mistakes in a study are reported on one line with the file, the row or key, and the next action."""

import pytest

from recheck.errors import UserError
from support.project.studies import TEXT, changed, own_study

MINER = "miner: {class: MultiSimilarityMiner, epsilon: 0.1}"
LOSS = "loss: {class: TripletMarginLoss, margin: 0.1}"
SELECTION = "selection:\n    role: val\n    metric: MAP@R\n    also: [P@1]"
VIEWS = "views: [concatenated, separated]"
TEST = "selection: {role: test, metric: R@1}"
TWO_VIEWS = "forward: {class: MultiView, passes: 2, masks: 2, dropout: 0.1}"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "evaluation:\n",
            "evaluation:\n    curvature: 0.1\n",
            "'evaluation.curvature' cannot be combined with 'reduction'. Use one or the other.",
        ),
        ("seeds: [0]", "sedes: [0]", "unknown key 'sedes'; did you mean 'seeds'?"),
        ("seeds: [0]", "seeds: [zero]", "'seeds.0' must be a whole number, found 'zero'"),
        ("seeds: [0]", "seeds: [0, 0]", "'seeds'"),
        ("seeds: [0]\n", "", "key 'seeds' is missing"),
        ("evaluate_every: 1", "evaluate_evry: 1", "unknown key 'evaluate_evry' in 'protocol.schedule'"),
        ("evaluate_every: 1", "evaluate_every: 0", "'protocol.schedule.evaluate_every' must be at least 1, found 0."),
        ("views: [concatenated, separated]", "views: []", "'views' must not be empty."),
        ("lr: 0.001", "lr: fast", "'protocol.optimisers.backbone.lr' must be a number, found 'fast'"),
        ("lr: 0.001", "lr: -0.1", "'protocol.optimisers.backbone.lr' must be at least 0, found -0.1."),
        ("dim: 16", "dim: 0", "'model.head.dim' must be a whole number of at least 1, found 0"),
        ("name: efficientnet_lite0", "name: efficientnet_lite", "Unknown backbone 'efficientnet_lite'; did you mean"),
        ("weights: imagenet", "weights: mine.pt", "'model.backbone.weights' is 'mine.pt', but there is no such file."),
        ("- center_crop:", "- centre_crop:", "unknown key 'centre_crop' in 'protocol.transforms.eval.0'; did you mean"),
        ("{size: 32}", "{side: 32}", "unknown key 'side' in 'protocol.transforms.eval.0.center_crop'; did you mean"),
        ("{size: 32}", "{}", "key 'size' is missing in 'protocol.transforms.eval.0.center_crop'"),
        ("scale: [0.6, 1.0]", "scale: 0.5", "'protocol.transforms.train.0.random_resized_crop.scale' must be a list"),
        ("batch_norm: frozen", "batch_norm: forzen", "did you mean 'frozen'?"),
        ("metric: MAP@R", "metric: MAP@K", "'selection.metric': Unknown metric 'MAP@K'; did you mean 'MAP@R'?"),
        (
            "table: [P@1, RP, MAP@R]",
            "table: [P@1, R@64]",
            "'evaluation.table' names 'R@64', which is not in 'evaluation.metrics'",
        ),
        (VIEWS, "views: [concatenate]", "Unknown view 'concatenate'; did you mean 'concatenated'?"),
        (
            "    loss: {class: MultiSimilarityLoss, alpha: 2.0, beta: 50.0, base: 0.5}\n",
            "",
            "'loss' is missing, but 'schedule.epochs' is 2",
        ),
        (
            "  triplet:",
            "  Triplet Loss:",
            "the name 'Triplet Loss' in 'methods' must begin with a lower-case letter or digit and contain only "
            "lower-case letters, digits, '.', '_' and '-'.",
        ),
        (
            "label: Triplet\n",
            "label: Triplet\n    datasets: {cub200: {loss: {margin: 0.2}}}\n",
            "row 'triplet' has no hyper-parameters for 'emoji', only for cub200. Add "
            "'methods.triplet.datasets.emoji', or set 'datasets.emoji.hyperparameters_of' to one of these datasets",
        ),
        (
            MINER,
            f"{MINER}\n    sampler: {{per_class: 1}}",
            "row 'mined': the miner 'MultiSimilarityMiner' needs several images per class in a batch, but the sampler "
            "'MPerClass' does not provide them",
        ),
        (
            MINER,
            f"{MINER}\n    sampler: {{class: Shuffled, batch: 32}}",
            "but the sampler 'Shuffled' does not provide them",
        ),
        (
            LOSS,
            "loss: {class: WithinPairLoss, sharpness: 32, loss: {class: TripletMarginLoss}}",
            "the loss 'WithinPairLoss' needs several views of each image. Add 'forward: {class: MultiView, …}'",
        ),
        (
            LOSS,
            f"loss: {{class: HistogramLoss}}\n    {TWO_VIEWS}",
            "the loss 'HistogramLoss' takes one view of each image. Wrap it in '{class: WithinPairLoss, loss: …}'",
        ),
        (
            LOSS,
            f"loss: {{class: TripletMarginLoss}}\n    {TWO_VIEWS}",
            "the loss 'TripletMarginLoss' takes one view of each image. Wrap it in '{class: WithinPairLoss, loss: …}'",
        ),
        (MINER, f"{MINER}\n    {TWO_VIEWS}", "'miner' does not work with several views of an image"),
        ("title:", "base: nowhere\ntitle:", "'base': there is no other study 'nowhere'"),
        ("title:", "base: mine\ntitle:", "'base': there is no other study 'mine'"),
        ("title:", "seeds: [1]\ntitle:", "key 'seeds' appears twice"),
        ("folds: 2}", "fold: 2}", "unknown key 'fold' in 'protocol.split'; did you mean 'folds'?"),
        (", folds: 2}", "}", "key 'folds' is missing in 'protocol.split'"),
        ("class_disjoint_folds, folds: 2", "halves_by_super_label", "key 'seed' is missing in 'protocol.split'"),
        ("class_disjoint_folds, folds: 2", "class_halfs", "did you mean 'class_halves'?"),
        ("class_disjoint_folds", "class_halves", "'split': Unknown option 'folds' of split scheme 'class_halves'"),
        (
            "class_disjoint_folds, folds: 2",
            "class_halves",
            "the split scheme class_halves only has the roles train, test. Leave",
        ),
        (
            "    resize: null\n",
            "    resize: {jpeg: 75}\n",
            "'transforms.resize' must have exactly one of 'shorter', 'exact' and 'fit'",
        ),
        ("protocol:", "protocol: {", "not valid YAML"),
        # parts, at every key that takes one
        ("class: TripletMarginLoss", "class: TripletMarginLos", "did you mean 'TripletMarginLoss'?"),
        ("class: MultiSimilarityMiner", "class: MultiSimMiner", "unknown class 'MultiSimMiner' in 'miner'"),
        ("class: MPerClass", "class: UserError", "unknown class 'UserError' in 'sampler'"),
        ("class: Linear,", "class: Liner,", "unknown class 'Liner' in 'model.head'; did you mean 'Linear'?"),
        ("backbone: {class: Adam,", "backbone: {class: Adaam,", "unknown class 'Adaam' in 'optimisers.backbone'"),
        ("    batch_norm:", "    pooling: {class: Maxx}\n    batch_norm:", "unknown class 'Maxx' in 'model.pooling'"),
        (
            "    batch_norm:",
            "    projector: {class: LinearProjectr}\n    batch_norm:",
            "unknown class 'LinearProjectr' in 'model.projector'; did you mean 'LinearProjector'?",
        ),
        (LOSS, f"{LOSS}\n    forward: {{class: InTurn, parts: 2}}", "unknown class 'InTurn' in 'forward'"),
        (LOSS, f"{LOSS}\n    relabel: {{class: MetaClass, count: 6}}", "unknown class 'MetaClass' in 'relabel'"),
        (LOSS, f"{LOSS}\n    lr_schedule: {{class: StepLr, step_size: 1}}", "unknown class 'StepLr' in 'lr_schedule'"),
        (LOSS, "loss: {class: TripletMarginLoss, distance: {class: Lp}}", "unknown class 'Lp' in 'loss.distance'"),
        (
            LOSS,
            "loss: {class: ScaledLoss, factor: 1.0, loss: {class: NPairLos}}",
            "unknown class 'NPairLos' in 'loss.loss'; did you mean 'NPairLoss'?",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_on_one_line_with_file_and_key(tmp_path, old, new, sentence):
    with pytest.raises(UserError) as error:
        changed(tmp_path, (old, new))
    assert sentence in str(error.value)
    assert "mine.yaml" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ([(SELECTION, "selection: {role: val, metric: R@1}")], "the view 'best_on_test' needs 'selection: {role: test"),
        (
            [("[best_on_test, last_epoch]", "[last_epoch]"), (TEST, "selection: {role: val, metric: R@1}")],
            "the view 'last_epoch' needs the last epoch, but 'selection.role' is 'val'",
        ),
        ([(TEST, "selection: {role: train, metric: R@1}")], "'protocol.selection.role' is 'train'"),
        ([("R@1}", "R@1, watch: {tset: [R@1]}}")], "'selection.watch' names 'tset', but the split scheme"),
        ([("R@1}", "R@1, watch: {test: [R1]}}")], "'selection.watch.test': Unknown metric 'R1'"),
        ([("label: Triplet\n", "label: Triplet\n    evaluation: {metrics: [P@1]}\n")], "unknown key 'metrics'"),
        ([("label: Triplet\n", "label: Triplet\n    relabel: {class: MetaClasses}\n")], "key 'count' is missing"),
        (
            [("label: Triplet\n", "label: Triplet\n    forward: {class: InTurns, parts: 3}\n")],
            "'forward.parts' (3) must divide 'sampler.batch' (8)",
        ),
        (
            [("label: Triplet\n", "label: Triplet\n    schedule: {warm_up: {epoch: 1}}\n")],
            "unknown key 'epoch' in 'methods.triplet.schedule.warm_up'; did you mean 'epochs'?",
        ),
    ],
)  # fmt: skip
def test_mistakes_in_a_protocol_that_selects_on_test(tmp_path, changes, sentence):
    text = TEXT.replace(VIEWS, "views: [best_on_test, last_epoch]")
    if changes[0][0] != SELECTION:
        text = text.replace(SELECTION, TEST)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    with pytest.raises(UserError) as error:
        own_study(tmp_path, text)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
