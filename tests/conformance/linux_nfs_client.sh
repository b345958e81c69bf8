# The checks of the guest of linux_nfs_client.py in /mnt, where the server is mounted. The environment has FILES, the
# number of files in a directory, and the checksums SUM of the host's file and LARGE of six copies of its content.

check() {
    name=$1
    shift
    if "$@" >/tmp/said 2>&1; then echo "check: ok $name"; else echo "check: FAILED $name"; cat /tmp/said; fi
}
same() { [ "$1" = "$2" ] || { echo "$1"; echo "$2"; false; }; }
forget() { sync; echo 3 >/proc/sys/vm/drop_caches; }
sum() { sha256sum <"$1" | cut -d' ' -f1; }

renamed_over() { echo new >a/n && mv a/n a/c/file && same "$(cat a/c/file)" new; }
hard_links() {
    ln a/c/file a/link && same "$(stat -c %h a/link)" 2 && rm a/c/file && same "$(stat -c %h a/link)" 1
}
soft_links() { ln -s link a/soft && same "$(cat a/soft)" new && same "$(readlink a/soft)" link; }
pipes() { mkfifo a/pipe && [ -p a/pipe ]; }
modes() { chown 12:34 a/link && chmod 4751 a/link && same "$(stat -c %a:%u:%g a/link)" 4751:12:34; }
set_times() { touch -d "2001-02-03 04:05:06" a/link && same "$(stat -c %Y a/link)" 981173106; }
cut_and_grown() {
    truncate -s 3 a/link && same "$(cat a/link)" new && truncate -s 100000 a/link && same "$(wc -c <a/link)" 100000
}
appended() { echo 1 >log && echo 2 >>log && echo 3 >>log && same "$(wc -l <log)" 3; }
exclusive() { ( set -C; echo 1 >only && ! echo 2 >only ) && same "$(cat only)" 1; }
full_directory() { ! rmdir a; }
removed_while_open() { ( echo kept >open && exec 3<open && rm open && same "$(cat <&3)" kept ); }
no_silly_names() { same "$(find . -name '.nfs*')" ""; }
read_often() { for n in 1 2 3 4 5 6 7 8 9; do cat shared || return 1; done >/dev/null && same "$(cat shared)" before; }
becomes_new() {
    n=0
    until [ "$(cat shared)" = after ]; do
        n=$((n + 1))
        [ "$n" -lt 100 ] || return 1
        sleep 1
    done
}
six_times() { for n in 1 2 3 4 5 6; do cat from-host || return 1; sleep 1; done >large && sync; }

cd /mnt || exit 1
check "what the host put there is read" same "$(sum from-host)" "$SUM"
check "it is copied" cp from-host copy
forget
check "the copy is the same from the server" same "$(sum copy)" "$SUM"
mkdir -p a/b/c
echo text >a/b/c/file
check "directories are renamed" mv a/b/c a/c
check "files are renamed over others" renamed_over
check "hard links count" hard_links
check "symbolic links lead there" soft_links
check "pipes are pipes" pipes
check "modes and owners are kept" modes
check "times are set" set_times
check "files are cut and grow" cut_and_grown
check "appending appends" appended
check "exclusive creation is exclusive" exclusive
check "a full directory is not removed" full_directory
check "a removed file is read until it is closed" removed_while_open
check "nothing is left of it" no_silly_names
mkdir many
i=0
while [ "$i" -lt "$FILES" ]; do : >"many/file$i"; i=$((i + 1)); done
forget
check "every file is listed once" same "$(ls -U many | wc -l) $(ls -U many | sort -u | wc -l)" "$FILES $FILES"
check "every file is listed with its attributes" same "$(ls -l many | grep -c '^-rw')" "$FILES"
check "find finds them" same "$(find many -type f | wc -l)" "$FILES"
check "they are removed" rm -r many
mkdir tree
tar -C / -cf - modules | tar -C tree -xf -
forget
check "a tree that was unpacked is the same" diff -r /modules tree/modules
check "room is told" df -k .
check "data are written through" dd if=from-host of=direct bs=65536 count=64 oflag=direct
check "data are flushed" dd if=from-host of=flushed bs=1048576 conv=fsync
check "a file that others have, too, is read often" read_often
echo "dyno: change"
check "what another client makes of it is read" becomes_new
echo "dyno: restart"
check "a write goes on when the server starts anew" six_times
forget
check "all of it is right" same "$(sum large)" "$LARGE"
check "what was flushed before is right" same "$(sum flushed)" "$SUM"
cd /
check "it is unmounted" umount /mnt
