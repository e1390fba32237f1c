"""Losses and gradients of the unbiased evaluation against stored arrays, in float64."""

import torch

from recheck.methods.geometry import distances
from recheck.methods.losses import build_loss
from recheck.methods.losses.unbiased.angular_pair import AngularPairLoss
from recheck.methods.losses.unbiased.boundary_margin import BoundaryMarginLoss
from recheck.methods.losses.unbiased.discriminative import DiscriminativeLoss
from recheck.methods.losses.unbiased.facility_location import FacilityLocationLoss, energy, true_energy
from recheck.methods.losses.unbiased.norm_proxy import NormProxyLoss
from recheck.methods.losses.unbiased.npair import NPairLoss
from recheck.methods.losses.unbiased.prototypical import PrototypicalLoss
from recheck.methods.losses.unbiased.proxy_nca import ExclusiveProxyNCALoss
from recheck.methods.losses.unbiased.proxy_triplet import ProxyTripletLoss
from recheck.methods.losses.unbiased.ranked_list import UnbiasedRankedListLoss
from recheck.methods.losses.unbiased.semihard_triplet import SemiHardTripletLoss
from recheck.methods.miners.distance_weighted import DistanceWeightedSampler
from support.golden import RELATIVE, cases
from support.golden.fidelity import compares


def simple(case, loss, embeddings="emb"):
    """Value and gradient of a loss without parameters."""
    x = case.variable(embeddings)
    value = loss(x, case.tensor("labels"))
    value.backward()
    case.check("loss", value)
    case.check("grad_emb", x.grad)


@compares("loss", "gradient", studies=["unbiased"], parts=["SemiHardTripletLoss"], tolerance=RELATIVE)
def test_semihard_triplet(golden):
    for case in cases(golden, "unbiased_triplet_semihard"):
        with case:
            simple(case, SemiHardTripletLoss(case.value("margin")))


def lifted(margin, distance="LpDistance", **options):
    spec = {
        "class": "LiftedStructureLoss",
        "neg_margin": margin,
        "pos_margin": 0,
        "distance": {"class": distance, "normalize_embeddings": False, **options},
    }
    return build_loss(spec, 3, 4)


@compares("loss", "gradient", studies=["unbiased"], parts=["LiftedStructureLoss"], tolerance=RELATIVE)
def test_lifted_structure_is_the_librarys(golden):
    for options in ({}, {"distance": "ShiftedLpDistance", "shift": 0}):
        for case in cases(golden, "unbiased_lifted"):
            with case:
                simple(case, lifted(case.value("margin"), **options))


def check_pairs(case, loss):
    anchors, positives = case.variable("anchors"), case.variable("positives")
    embeddings, labels = torch.cat((anchors, positives)), case.tensor("labels").repeat(2)
    case.check("loss_per_pair", loss.of_pairs(embeddings, labels))
    value = loss(embeddings, labels)
    value.backward()
    case.check("loss_mean", value)
    case.check("grad_anchors", anchors.grad)
    case.check("grad_positives", positives.grad)


@compares("loss", "gradient", studies=["unbiased"], parts=["NPairLoss"], tolerance=RELATIVE)
def test_npair(golden):
    for case in cases(golden, "unbiased_npair"):
        with case:
            check_pairs(case, NPairLoss(case.value("l2reg"), case.value("symmetric")))


@compares("loss", "gradient", studies=["unbiased"], parts=["AngularPairLoss"], tolerance=RELATIVE)
def test_angular(golden):
    for case in cases(golden, "unbiased_angular"):
        with case:
            options = [case.value(key) for key in ("alpha_degrees", "l2reg", "symmetric")]
            check_pairs(case, AngularPairLoss(*options))


@compares("loss", "gradient", studies=["unbiased"], parts=["FacilityLocationLoss"], tolerance=RELATIVE)
def test_facility_location(golden):
    for case in cases(golden, "unbiased_facility_location"):
        with case:
            loss = FacilityLocationLoss(case.value("gamma"), case.value("pam_iters"), case.value("use_pam"))
            matrix, labels = distances(case.tensor("emb"), case.tensor("emb")), case.tensor("labels")
            result = loss.search(matrix, labels)
            case.same("greedy_medoids_in_order", result.greedy)
            case.same("final_medoids", result.medoids)
            case.same("assignment", result.assignment)
            case.check("nmi", result.nmi)
            case.check("score_pred", energy(matrix, result))
            case.check("score_gt", true_energy(matrix, labels, len(result.medoids)))
            simple(case, loss)


@compares("loss", "gradient", studies=["unbiased"], parts=["BoundaryMarginLoss"], tolerance=RELATIVE)
def test_boundary_margin(golden):
    for case in cases(golden, "unbiased_margin"):
        with case:
            beta = case.tensor("beta_per_class")
            loss = BoundaryMarginLoss(len(beta), case.value("margin"), nu=case.value("nu")).double()
            loss.beta.data = beta.clone()
            x = case.variable("emb")
            triplets = tuple(case.tensor(f"{row}_idx") for row in ("anchor", "positive", "negative"))
            value = loss(x, case.tensor("class_slot_of_sample"), triplets)
            value.backward()
            case.check("loss", value)
            case.check("grad_emb", x.grad)
            case.check("grad_beta_per_class", loss.beta.grad)

            sampler = DistanceWeightedSampler(case.value("cutoff"), case.value("nonzero_loss_cutoff"))
            case.check("negative_sampling_prob", sampler.probabilities(x, case.tensor("labels")))
            torch.manual_seed(0)
            anchors, positives, negatives = sampler(x, case.tensor("labels"))
            assert len(anchors) == len(x) * (case.value("batch_k") - 1)
            stored = zip(case.array("anchor_idx").tolist(), case.array("positive_idx").tolist(), strict=True)
            assert sorted(zip(anchors.tolist(), positives.tolist(), strict=True)) == sorted(stored)
            assert (case.array("negative_sampling_prob")[anchors, negatives] > 0).all()


@compares("loss", "gradient", studies=["unbiased"], parts=["PrototypicalLoss"], tolerance=RELATIVE)
def test_prototypical(golden):
    for case in cases(golden, "unbiased_prototypical"):
        with case:
            classes, supports, queries = (case.value(key) for key in ("nc", "ns", "nq"))
            loss = PrototypicalLoss(classes, supports, queries)
            parts = [case.variable("supports"), case.variable("queries")]
            order = torch.arange(classes)
            labels = torch.cat((order.repeat_interleave(supports), order.repeat_interleave(queries)))
            case.check("loss_per_query", loss.of_queries(torch.cat(parts), labels))
            value = loss(torch.cat(parts), labels)
            value.backward()
            case.check("loss_mean", value)
            case.check("grad_supports", parts[0].grad)
            case.check("grad_queries", parts[1].grad)


def check_proxies(case, kind, prefix="", mean="loss_mean", each="loss_per_sample", **options):
    raw = case.tensor("proxies_raw")
    loss = kind(*raw.shape, **options).double()
    loss.proxies.data = raw.clone()
    x, labels = case.variable("emb_unit"), case.tensor("labels")
    if each:
        case.check(prefix + each, loss.of_images(x, labels))
    value = loss(x, labels)
    value.backward()
    case.check(prefix + mean, value)
    case.check(f"{prefix}grad_emb", x.grad)
    case.check(f"{prefix}grad_proxies_raw", loss.proxies.grad)


@compares("loss", "gradient", studies=["unbiased"], parts=["ExclusiveProxyNCALoss"], tolerance=RELATIVE)
def test_proxy_nca(golden):
    for case in cases(golden, "unbiased_proxynca"):
        with case:
            exclusive = case.value("exclude_positive_from_denominator")
            check_proxies(
                case,
                ExclusiveProxyNCALoss,
                multiplier=case.value("multiplier"),
                temperature=case.value("temperature"),
                label_smoothing=case.value("label_smoothing"),
                exclude_positive=exclusive,
                sign="standard" if exclusive else "original",
            )


@compares("loss", "gradient", studies=["unbiased"], parts=["ProxyTripletLoss"], tolerance=RELATIVE)
def test_proxy_triplet(golden):
    for case in cases(golden, "unbiased_proxytriplet"):
        with case:
            mean = "loss_sum_over_negatives_mean_over_batch"
            check_proxies(case, ProxyTripletLoss, mean=mean, each=None, margin=case.value("margin"))


@compares("loss", "gradient", studies=["unbiased"], parts=["NormProxyLoss"], tolerance=RELATIVE)
def test_norm_proxy(golden):
    for case in cases(golden, "unbiased_normproxy"):
        with case:
            options = {key: case.value(key) for key in ("temperature", "label_smoothing")}
            for sign, prefix in (("standard", "standard_"), ("original", "original_sign_")):
                check_proxies(case, NormProxyLoss, prefix, sign=sign, **options)


@compares("loss", "gradient", studies=["unbiased"], parts=["UnbiasedRankedListLoss"], tolerance=RELATIVE)
def test_ranked_list(golden):
    for case in cases(golden, "unbiased_rankedlist"):
        with case:
            loss = UnbiasedRankedListLoss(*(case.value(key) for key in ("alpha", "margin", "temperature")))
            case.check("loss_per_anchor", loss.of_anchors(case.tensor("emb_unit"), case.tensor("labels")))
            simple(case, loss, "emb_unit")


@compares("loss", "gradient", studies=["unbiased"], parts=["DiscriminativeLoss"], tolerance=RELATIVE)
def test_discriminative(golden):
    for case in cases(golden, "unbiased_discriminative"):
        with case:
            loss = DiscriminativeLoss(case.value("num_classes"))
            case.check("scale_G", loss.factor(len(case.array("labels"))))
            simple(case, loss, "emb_unit")
