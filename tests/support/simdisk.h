/* A disk whose power can be cut.
 *
 * WHAT IT IS.  A disk table over real files in a folder.  Every call is carried out on the real files at once, so the engine
 * reads what it wrote; beside that the simulation remembers what a real disk would be sure to have, and what would be left to
 * chance.  simdisk_crash() then builds, in another folder, one of the states that the disk may be found in after the power has
 * come back, chosen by a seed.  Tests run the engine on that folder and look whether it kept its promises.
 *
 * WHAT IS REMEMBERED.
 *   For each file, the writes and truncations since the last fsync or fdatasync of it, in order: the new bytes, and the old ones
 *   that they covered, so that the durable content can be had back from the current one by undoing them last to first.
 *   For each folder, the creations, renames, links and removals of names since the last fsync of the folder.
 *   Nothing else makes anything durable: not close, not sync_file_range, not the sync of another file, not time.
 *
 * WHAT A CRASH DOES.
 *   Data.  From the durable content on, each remembered write is independently
 *       kept      all of its bytes are there,
 *       dropped   none is; where it would have made the file longer, that is so or not, with zeros in place of the bytes,
 *       torn      at 512-byte sectors: a first part or any selection of sectors is new; the others are old, zeros or garbage.
 *     A file draws one of several characters first (a mix of all three; a first part of its writes kept and the next one torn;
 *     nothing; all but the last), because long runs of equal luck find other bugs than constant change does.  In one of four cases
 *     the file keeps its old length in the end.  Truncations survive in order, up to some point; a write beyond the new end that
 *     came after a truncation is only there when the truncation is, as file systems free blocks before they give them out anew.
 *   Names.  Each remembered change of names survives or not.  A rename is atomic, across folders too.  Changes that touch the same
 *     name survive in order, so that an inode never has two names or a name two inodes that it never had; unrelated ones are
 *     independent: nothing is assumed about order between files.  In half of the crashes the changes instead survive up to some
 *     point in the order in which they were made, which is what a journal does.
 *   A file whose name does not survive is gone with all its bytes, synced or not; so are O_TMPFILE files, and files that were made
 *   behind the simulation's back.  A synced file under a name that was not synced is whole, if it is there.
 *
 * WHAT IS NOT MODELLED.  Neighbours of a torn write are never harmed (sectors are written whole or not at all).  Modes, times and
 * owners.  fallocate() with KEEP_SIZE does nothing here.  Reads are not checked.
 *
 * Everything is a function of the sequence of calls and the seed.  After the crash every call on that incarnation fails with EIO
 * (close excepted), so that the engine's threads wind down; several crashes may be built from one incarnation with other seeds.
 *
 * One simulation is active at a time, since the table has no argument of its own.  Any thread; calls that change something are
 * carried out one at a time. */
#ifndef DFS_TESTS_SUPPORT_SIMDISK_H
#define DFS_TESTS_SUPPORT_SIMDISK_H

#include <stdbool.h>
#include <stdint.h>

#include "volume/disk.h"

struct simdisk;

/* root: an existing folder; what is in it now is durable.  Old bytes are kept alive by hard links in "<root>.sim". */
struct simdisk *simdisk_new(const char *root);
/* Deactivates it when it is active.  Removes "<root>.sim", not the root. */
void simdisk_free(struct simdisk *sim);

/* From now on the engine's calls go to sim; NULL puts the system calls back.  When no thread of the engine runs. */
void simdisk_activate(struct simdisk *sim);
/* The table, for wrapping it with fault_install() after simdisk_activate(). */
const struct disk_ops *simdisk_ops(void);

/* Ways to break the promises of the disk, to see that the tests notice: the call succeeds and does nothing. */
enum simdisk_lie {
    SIMDISK_LIE_FDATASYNC = 1 << 0,
    SIMDISK_LIE_FSYNC = 1 << 1,        /* of files */
    SIMDISK_LIE_FOLDER_FSYNC = 1 << 2,
};
void simdisk_lie(struct simdisk *sim, unsigned lies);

/* The n-th fsync or fdatasync of a file from now on fails with EIO, and what it should have made durable is lost: readable until
 * the crash, gone afterwards, although later syncs succeed (as when the kernel marks pages clean after a failed write-back). */
void simdisk_fail_sync(struct simdisk *sim, uint64_t n);

/* Cuts the power at the n-th changing call from now (1 = the next): that call returns EIO and is as unsure as any un-synced one
 * (a sync has had no effect).  0 = never. */
void simdisk_crash_after(struct simdisk *sim, uint64_t n);
bool simdisk_dead(const struct simdisk *sim);
/* Changing calls so far: open that creates or truncates, write, fsync, fdatasync, ftruncate, and the changes of names. */
uint64_t simdisk_mutations(const struct simdisk *sim);
/* Bytes of writes that a crash may lose now, in all files. */
uint64_t simdisk_unsynced_bytes(struct simdisk *sim);

enum simdisk_mode {
    SIMDISK_RANDOM,    /* as described above */
    SIMDISK_DROP_ALL,  /* exactly what is durable, nothing else */
    SIMDISK_KEEP_ALL,  /* everything, as when only the process dies */
};

/* Cuts the power if it is not cut yet, and builds a state in the new folder `into` (made here).  Aborts when the real file system
 * fails. */
void simdisk_crash(struct simdisk *sim, uint64_t seed, enum simdisk_mode mode, const char *into);

#endif
