"""Heads, meta-classes, metrics and the optimiser of the unbiased evaluation against stored arrays."""

import numpy as np
import torch

from recheck.evaluation.clustering import nmi
from recheck.evaluation.metrics import evaluate
from recheck.evaluation.views import concatenated, normalise
from recheck.methods.losses.unbiased.proxy_nca import ExclusiveProxyNCALoss
from recheck.methods.meta_classes import mapping, relabel
from recheck.methods.mxnet_adam import MXNetAdam
from recheck.methods.optimisers import build_optimisers
from recheck.models.heads import NormProxyHead
from support.golden import RELATIVE, cases, rest
from support.golden.fidelity import compares


@compares("network", studies=["unbiased"], parts=["NormProxyHead"], tolerance=RELATIVE)
def test_norm_proxy_head(golden):
    with rest(golden, "unbiased_normproxy") as stored:
        weight = stored.tensor("head_weight_v")
        head = NormProxyHead(weight.shape[1], weight.shape[0]).double().eval()
        head.layer_norm.weight.data = stored.tensor("head_layernorm_gamma")
        head.layer_norm.bias.data = stored.tensor("head_layernorm_beta")
        head.direction.data, head.gain.data = weight, stored.tensor("head_weight_g")
        features = stored.tensor("head_features")
        stored.check("head_output", head(features))
        head.binarise = True
        stored.same("head_output_binarised", head(features).detach())


@compares("sampler", studies=["unbiased"], parts=["MetaClasses"], tolerance="equal meta-classes")
def test_meta_classes(golden):
    for case in cases(golden, "unbiased_dreml"):
        with case:
            members, meta_classes = case.value("L"), case.value("D")
            made = mapping(case.value("seed"), members, meta_classes, case.value("num_classes"))
            case.same("mapping", made)
            labels = case.array("labels")
            meta = np.stack([relabel(labels, made, member) for member in range(members)])
            case.same("meta_labels_all_members", meta)
            others = ~ExclusiveProxyNCALoss(meta_classes, 3).true_proxies(torch.from_numpy(meta[0]))
            case.same("negatives_member0", others.nonzero()[:, 1].reshape(len(labels), -1))


def recalls(stored, ks):
    return [f"R@{k}" for k in stored.array(ks)]


def test_growing_ensemble(golden):
    with rest(golden, "unbiased_dreml") as stored:
        members, labels = stored.array("ens_member_embeddings"), stored.array("ens_labels")
        names = recalls(stored, "ens_recall_ks")
        grown = [evaluate(concatenated(members[:count]), labels, names) for count in range(1, len(members) + 1)]
        stored.check("ens_recall_after_each_member", [[100 * values[name] for name in names] for values in grown])
        whole = evaluate(normalise(stored.array("ens_concat")), labels, names)
        assert whole == grown[-1]


@compares("metric", studies=["unbiased"], tolerance=RELATIVE)
def test_metrics(golden):
    with rest(golden, "unbiased_eval") as stored:
        embeddings, labels, names = stored.array("emb"), stored.array("labels"), recalls(stored, "ks")
        stored.check("recall_euclidean", [100 * value for value in evaluate(embeddings, labels, names).values()])
        cosine = evaluate(normalise(embeddings), labels, names)
        stored.check("recall_cosine", [100 * value for value in cosine.values()])
        for clusters in ("random", "noisy"):
            assigned = stored.array(f"clusters_{clusters}")
            for average in ("geometric", "arithmetic"):
                if f"nmi_{average}_{clusters}" in stored:
                    stored.check(f"nmi_{average}_{clusters}", 100 * nmi(labels, assigned, average))


def adam_cases(golden):
    for case in cases(golden, "unbiased_adam"):
        clip = case.value("clip_value")
        options = {
            "lr": case.value("lr"),
            "eps": case.value("epsilon"),
            "weight_decay": case.value("weight_decay"),
            "clip": None if clip < 0 else clip,
        }
        yield case, torch.nn.Parameter(case.tensor("w0").clone()), options


@compares("optimiser", studies=["unbiased"], parts=["MXNetAdam"], tolerance=RELATIVE)
def test_mxnet_adam(golden):
    for case, weight, options in adam_cases(golden):
        with case:
            module = torch.nn.ParameterList([weight])
            spec = {"head": {"class": "MXNetAdam", **options}}
            optimiser = build_optimisers(spec, {"head": module})["head"]
            after = []
            for gradient in case.tensor("grads"):
                weight.grad = gradient.clone()
                optimiser.step()
                after.append(weight.detach().clone())
            case.check("w_after_each_step", torch.stack(after))
            # steps are small compared with the weights, so the change itself is compared to the same tolerance
            way, expected = torch.stack(after) - case.tensor("w0"), case.array("w_after_each_step") - case.array("w0")
            assert np.abs(way.numpy() - expected).max() <= 1e-8 * np.abs(expected).max()


def test_mxnet_adam_continues_from_its_state(golden):
    for case, weight, options in adam_cases(golden):
        gradients, expected = case.tensor("grads"), case.array("w_after_each_step")
        optimiser = MXNetAdam([weight], **options)
        for gradient in gradients:
            weight.grad = gradient.clone()
            optimiser.step()
            state = optimiser.state_dict()
            weight = torch.nn.Parameter(weight.detach().clone())
            optimiser = MXNetAdam([weight], lr=1.0)
            optimiser.load_state_dict(state)
        assert np.abs(weight.detach().numpy() - expected[-1]).max() <= 1e-8 * np.abs(expected).max()
