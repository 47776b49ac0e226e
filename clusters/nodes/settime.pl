# Settime: as settime.py, for hosts that have Perl and no Python. Needs no module: the kernel is called by number.
use strict;
use warnings;

my %CALLS = (    # clock_gettime, clock_settime
    x86_64  => [ 228, 227 ],
    aarch64 => [ 113, 112 ],
    riscv64 => [ 113, 112 ],
    ppc64le => [ 246, 245 ],
    s390x   => [ 260, 259 ],
);
my ( $WALL, $SINCE_BOOT, $READINGS ) = ( 0, 7, 9 );
my ( $ATTEMPTS, $CLOSE_S ) = ( 50, 0.001 );
my $TIMESPEC = 'l!l!';

chomp( my $machine = `uname -m` );
my ( $gettime, $settime ) = @{ $CALLS{$machine} || die "settime: not known on $machine: install python3\n" };

sub read_clock {
    my ($clock) = @_;
    my $timespec = pack $TIMESPEC, 0, 0;
    die "settime: clock $clock cannot be read: $!\n" if syscall( $gettime, $clock, $timespec ) != 0;
    my ( $seconds, $nanoseconds ) = unpack $TIMESPEC, $timespec;
    return $seconds + $nanoseconds / 1e9;
}

# The clock minus the time since boot: of several readings that in which the least time passed.
sub ahead_of_boot {
    my ( $least, $ahead );
    for ( 1 .. $READINGS ) {
        my ( $before, $wall, $after ) = map { read_clock($_) } $SINCE_BOOT, $WALL, $SINCE_BOOT;
        if ( !defined $least || $after - $before < $least ) {
            ( $least, $ahead ) = ( $after - $before, $wall - ( $before + $after ) / 2 );
        }
    }
    return $ahead;
}

# On a busy host this program may be put aside between reading one clock and setting the other.
sub set_ahead {
    my ($ahead) = @_;
    for ( 1 .. $ATTEMPTS ) {
        my $time = read_clock($SINCE_BOOT) + $ahead;
        my $seconds = int $time;
        my $timespec = pack $TIMESPEC, $seconds, int( ( $time - $seconds ) * 1e9 );
        die "settime: the clock cannot be set: $!\n" if syscall( $settime, $WALL, $timespec ) != 0;
        last if abs( ahead_of_boot() - $ahead ) < $CLOSE_S;
    }
    return;
}

my ( $verb, $anchor, $offset ) = @ARGV;
if    ( $verb eq 'anchor' ) { printf "%.6f\n", ahead_of_boot() }
elsif ( $verb eq 'offset' ) { printf "%.6f\n", ahead_of_boot() - $anchor }
elsif ( $verb eq 'set' )    { set_ahead( $anchor + $offset ) }
else                        { die "settime: unknown verb $verb\n" }
