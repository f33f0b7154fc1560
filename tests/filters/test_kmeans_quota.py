from __future__ import annotations

import numpy as np
import pytest

from trajstore.errors import SelectionError
from trajstore.filters.kmeans_quota import kmeans, kmeans_quota

LEFT = [(0.0, 0.0), (0.0, 1.0), (0.0, 0.5)]
RIGHT = [(10.0, 0.0), (10.0, 1.0)]
POINTS = np.array([LEFT[0], RIGHT[0], LEFT[1], RIGHT[1], LEFT[2]])


def test_two_clouds_are_two_clusters() -> None:
    own, centres = kmeans(POINTS, 2)
    assert own[0] == own[2] == own[4] != own[1] == own[3]
    assert sorted(map(tuple, centres.round(9))) == [(0.0, 0.5), (10.0, 0.5)]


def test_every_point_is_in_the_cluster_of_its_nearest_centre() -> None:
    draw = np.random.default_rng(0)
    points = draw.normal(size=(300, 3))
    own, centres = kmeans(points, 7, seed=2)
    gaps = np.linalg.norm(points[:, None] - centres, axis=2)
    np.testing.assert_array_equal(own, gaps.argmin(axis=1))
    for cluster, centre in enumerate(centres):
        np.testing.assert_allclose(points[own == cluster].mean(axis=0), centre)


def test_equal_points_make_fewer_clusters() -> None:
    _, centres = kmeans(np.ones((5, 2)), 3)
    assert len(centres) == 1


def test_without_a_quality_those_nearest_to_the_centres_are_picked() -> None:
    """(0, .5) is the centre of its cloud; of the other cloud both are as near."""
    assert kmeans_quota(POINTS, 2).places == (4, 1)


def test_with_a_quality_the_best_of_each_cluster_is_picked() -> None:
    picks = kmeans_quota(POINTS, 2, quality=np.array([0.1, 0.2, 0.9, 0.3, 0.5]))
    assert (picks.places, picks.scores) == ((2, 3), (0.9, 0.3))


def test_what_a_small_cluster_cannot_give_the_others_do() -> None:
    assert sorted(kmeans_quota(POINTS, 5, clusters=2).places) == [0, 1, 2, 3, 4]
    crowd = np.vstack([np.zeros((8, 2)), [[50.0, 0.0]]])
    assert 8 in kmeans_quota(crowd, 4, clusters=2).places


def test_each_cluster_comes_first_once_before_any_comes_twice() -> None:
    picks = kmeans_quota(POINTS, 4, clusters=2).places
    assert {p in {1, 3} for p in picks[:2]} == {True, False}


def test_nothing_is_picked_of_nothing() -> None:
    assert kmeans_quota(np.zeros((0, 2)), 3).places == ()
    assert kmeans_quota(POINTS, 0).places == ()
    assert len(kmeans(np.zeros((0, 2)), 3)[0]) == 0


def test_less_than_one_cluster_is_refused() -> None:
    with pytest.raises(SelectionError, match="at least 1 cluster"):
        kmeans(POINTS, 0)


def test_the_seed_decides_where_k_means_starts() -> None:
    points = np.random.default_rng(3).normal(size=(200, 2))
    one, again, other = (kmeans_quota(points, 9, seed=s) for s in (1, 1, 2))
    assert one == again
    assert one.places != other.places


def test_picks_lie_in_as_many_clusters_as_there_are_picks() -> None:
    """Nine tight clouds on a grid, nine picks, one of each cloud."""
    draw = np.random.default_rng(4)
    cloud = np.repeat(np.arange(9), 20)
    points = np.column_stack([cloud % 3, cloud // 3]) * 100.0 + draw.normal(size=(180, 2))
    assert {int(cloud[p]) for p in kmeans_quota(points, 9).places} == set(range(9))
