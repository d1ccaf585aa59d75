"""Contrastive pretraining around any encoder, with parts of lightly: SimCLR, MoCo v2, NNCLR, SimSiam, SimCSE, and
MoCo v3, BYOL, Barlow Twins; in one process or in several."""

from featlearn.learn.contrastive.across import pretrain_across as pretrain_across
from featlearn.learn.contrastive.joint import JointEmbedding as JointEmbedding
from featlearn.learn.contrastive.joint import JointObjective as JointObjective
from featlearn.learn.contrastive.objectives import Objective as Objective
from featlearn.learn.contrastive.objectives import matched_share as matched_share
from featlearn.learn.contrastive.objectives import simcse_loss as simcse_loss
from featlearn.learn.contrastive.objectives import spread_of as spread_of
from featlearn.learn.contrastive.settings import Contrastive as Contrastive
from featlearn.learn.contrastive.training import Epoch as Epoch
from featlearn.learn.contrastive.training import Pretrained as Pretrained
from featlearn.learn.contrastive.training import features_of as features_of
from featlearn.learn.contrastive.training import pretrain as pretrain
from featlearn.learn.contrastive.views import ImageViews as ImageViews
from featlearn.learn.contrastive.views import NoiseViews as NoiseViews
from featlearn.learn.contrastive.views import StoredViews as StoredViews
from featlearn.learn.contrastive.views import Views as Views
from featlearn.learn.contrastive.views import as_they_are as as_they_are

__all__ = [
    "Contrastive",
    "Epoch",
    "ImageViews",
    "JointEmbedding",
    "JointObjective",
    "NoiseViews",
    "Objective",
    "Pretrained",
    "StoredViews",
    "Views",
    "as_they_are",
    "features_of",
    "matched_share",
    "pretrain",
    "pretrain_across",
    "simcse_loss",
    "spread_of",
]
