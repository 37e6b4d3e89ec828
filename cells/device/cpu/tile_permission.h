// Tile registers (AMX) are a process's only when it has asked: Linux saves 8 KiB more of each thread that uses them.
#ifndef CELLBATCH_CELLS_DEVICE_CPU_TILE_PERMISSION_H_
#define CELLBATCH_CELLS_DEVICE_CPU_TILE_PERMISSION_H_

namespace cellbatch {

// Asks; true: all threads of this process, those to come included, may use them. False where the system knows none, or
// where a thread's stack for signals is too small for what would be saved there. Any thread; one system call.
bool MayUseTiles();

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_CPU_TILE_PERMISSION_H_
