// Linux wants to be asked for the tile registers of AMX. Programs for Windows need not ask, so ONNX Runtime does not, and Wine 8 does not do
// it for them. wine.sh preloads this; processors without tiles refuse, and nobody uses them.
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((constructor)) static void AskForTiles(void) {
  enum { kRequestFeature = 0x1023, kTileData = 18 };  // ARCH_REQ_XCOMP_PERM of asm/prctl.h
  syscall(SYS_arch_prctl, kRequestFeature, kTileData);
}
