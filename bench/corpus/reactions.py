"""Inputs of a network that says which atoms of a reaction are the same before and after."""

import numpy as np
from molecules import molecules
from samples import rng_of

# These take two molecules: amides, esters, reductive amination, aryl amines.
# These take one: hydrolysis of esters, reduction of nitro groups and of ketones.
PAIRS = ["[C:1](=[O:2])[OH].[N;!H0;!$(NC=O);!$(NS=O):3]>>[C:1](=[O:2])[N:3]", "[C:1](=[O:2])[OH].[OH:3][C:4]>>[C:1](=[O:2])[O:3][C:4]",
         "[CH1:1]=[O:2].[NH2:3]>>[C:1][N:3]", "[c:1][Br,Cl,I].[N;!H0;!$(NC=O):3]>>[c:1][N:3]"]
SINGLES = ["[C:1](=[O:2])[O;X2][C;!$(C=O):3]>>[C:1](=[O:2])[OH].[OH][C:3]", "[N+:1](=O)[O-]>>[N+0:1]", "[C:1]=[O:2]>>[C:1][O:2]"]
LARGEST = 30  # atoms of a reactant
FAR = 1000  # what RDKit's distances between unconnected atoms exceed


def products_of(reaction, reactants):
    """The molecules that come out, or None where the reaction does not apply or gives nonsense."""
    from rdkit import Chem
    outcomes = reaction.RunReactants(reactants)
    if not outcomes:
        return None
    try:
        products = [Chem.MolFromSmiles(Chem.MolToSmiles(product)) for product in outcomes[0]]
    except (RuntimeError, ValueError):
        return None
    return None if any(product is None for product in products) else products


def encoded(reactants, products):
    """Codes as the package has them: 0 padding, 1 the beginning of a molecule, and values from 2 on."""
    from rdkit import Chem
    atoms, neighbors, roles, blocks = [0], [0], [1], [np.ones((1, 1), np.int64)]
    for members, role in ((reactants, 2), (products, 3)):
        for molecule in members:
            count = molecule.GetNumAtoms()
            atoms += [1] + [atom.GetAtomicNum() + 2 for atom in molecule.GetAtoms()]
            neighbors += [0] + [min(atom.GetDegree() + atom.GetTotalNumHs(), 14) + 2 for atom in molecule.GetAtoms()]
            roles += [0] + [role] * count
            distances = Chem.GetDistanceMatrix(molecule)
            block = np.ones((count + 1, count + 1), np.int64)
            block[1:, 1:] = np.where(distances > FAR, 1, np.minimum(distances, 10) + 2)
            blocks.append(block)
    distances = np.zeros((len(atoms), len(atoms)), np.int64)
    at = 0
    for block in blocks:
        distances[at:at + len(block), at:at + len(block)] = block
        at += len(block)
    return {"atoms": np.array([atoms], np.int64), "neighbors": np.array([neighbors], np.int64), "distances": distances[None],
            "roles": np.array([roles], np.int64)}


def rxnmap(cache, side):
    from rdkit.Chem import AllChem
    pairs, singles = [[AllChem.ReactionFromSmarts(smarts) for smarts in group] for group in (PAIRS, SINGLES)]
    pool = [molecule for molecule in molecules(side) if molecule.GetNumAtoms() <= LARGEST]
    rng = rng_of(side, 0, 13)
    while True:
        group, count = (pairs, 2) if rng.random() < 0.75 else (singles, 1)
        reaction = group[int(rng.integers(len(group)))]
        reactants = tuple(pool[int(k)] for k in rng.integers(0, len(pool), count))
        products = products_of(reaction, reactants)
        if products is not None:
            yield encoded(reactants, products)
