# The stub that nanobind wrote, with the type arguments that `mypy --strict` asks for.
file(READ ${FROM} text)
string(REPLACE "os.PathLike" "os.PathLike[str]" text "${text}")
string(REPLACE "Annotated[NDArray," "Annotated[NDArray[Any]," text "${text}")
string(REPLACE "from typing import Annotated" "from typing import Annotated, Any" text "${text}")
file(WRITE ${TO} "${text}")
