//! Routing among several shards of an array: assigns stripes to shards, divides requests, and combines answers.
//!
//! Areas of consecutive stripes are assigned to the shards in turn, so that a sequential stream stays with one
//! shard for long. Shards share no state. Each can run on its own thread.

use crate::block::Block;
use crate::geometry::Geometry;
use crate::request::{Failure, Reply, Request, Token};
use crate::slab::Slab;

/// Assignment of stripes to shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharding {
    /// Number of shards.
    pub shards: usize,
    /// Number of consecutive stripes per area.
    pub area_stripes: u64,
}

impl Sharding {
    /// Assignment of all stripes to one shard.
    pub const ONE: Sharding = Sharding {
        shards: 1,
        area_stripes: u64::MAX,
    };

    /// Returns the shard of a stripe.
    pub fn shard(&self, stripe: u64) -> usize {
        (stripe / self.area_stripes % self.shards as u64) as usize
    }

    /// Divides a run of blocks of the volume by shards. Returns shards with numbers of blocks.
    pub fn runs(&self, geometry: &Geometry, start: u64, blocks: u64) -> Vec<(usize, u64)> {
        let mut runs: Vec<(usize, u64)> = Vec::new();
        for extent in geometry.extents(start, blocks) {
            let shard = self.shard(extent.stripe);
            match runs.last_mut() {
                Some((same, blocks)) if *same == shard => *blocks += u64::from(extent.blocks),
                _ => runs.push((shard, u64::from(extent.blocks))),
            }
        }
        runs
    }
}

/// Part of a request for one shard: shard, name of the part, and request.
pub type Piece<B> = (usize, Token, Request<B>);

/// A request that some shards have not answered yet.
struct Open<B> {
    token: Token,
    left: usize,
    data: Vec<Option<B>>,
    failure: Option<Failure>,
}

/// Divides requests among shards.
pub struct Router<B> {
    geometry: Geometry,
    sharding: Sharding,
    open: Slab<Open<B>>,
    /// For every part sent to a shard: its request, and the index of its blocks in the answer.
    pieces: Slab<(usize, usize)>,
}

impl<B: Block> Router<B> {
    /// Creates the router of an array.
    pub fn new(geometry: Geometry, sharding: Sharding) -> Router<B> {
        Router {
            geometry,
            sharding,
            open: Slab::new(),
            pieces: Slab::new(),
        }
    }

    /// Divides a request into parts, each for one shard.
    ///
    /// # Errors
    /// The reply with the failure, if the request is rejected.
    pub fn divide(&mut self, token: Token, request: Request<B>) -> Result<Vec<Piece<B>>, Reply<B>> {
        let (start, blocks) = match &request {
            Request::Flush => return Ok(self.everywhere(token)),
            Request::Read { start, blocks } | Request::Trim { start, blocks } => (*start, *blocks),
            Request::Write { start, data, .. } => (*start, data.len() as u64),
        };
        if let Some(failure) = self.geometry.check_extent(start, blocks) {
            return Err(Reply {
                token,
                result: Err(failure),
            });
        }
        let runs = self.sharding.runs(&self.geometry, start, blocks);
        let data = match &request {
            Request::Read { blocks, .. } => vec![None; *blocks as usize],
            _ => Vec::new(),
        };
        let open = self.open(token, runs.len(), data);
        let mut offset = 0;
        let pieces = runs.into_iter().map(|(shard, blocks)| {
            let piece = self.pieces.insert((open, offset)) as Token;
            let first = start + offset as u64;
            let request = match &request {
                Request::Write { data, durable, .. } => Request::Write {
                    start: first,
                    data: data[offset..offset + blocks as usize].to_vec(),
                    durable: *durable,
                },
                Request::Trim { .. } => Request::Trim {
                    start: first,
                    blocks,
                },
                _ => Request::Read {
                    start: first,
                    blocks,
                },
            };
            offset += blocks as usize;
            (shard, piece, request)
        });
        Ok(pieces.collect())
    }

    fn open(&mut self, token: Token, left: usize, data: Vec<Option<B>>) -> usize {
        self.open.insert(Open {
            token,
            left,
            data,
            failure: None,
        })
    }

    fn everywhere(&mut self, token: Token) -> Vec<Piece<B>> {
        let open = self.open(token, self.sharding.shards, Vec::new());
        let shards = 0..self.sharding.shards;
        let pieces = shards.map(|shard| {
            let piece = self.pieces.insert((open, 0)) as Token;
            (shard, piece, Request::Flush)
        });
        pieces.collect()
    }

    /// Accepts a shard's answer to a part. Returns the answer to the request after the last part.
    ///
    /// # Panics
    /// If the piece is not one of this router's.
    pub fn join(&mut self, reply: Reply<B>) -> Option<Reply<B>> {
        let piece = self.pieces.remove(reply.token as usize);
        let (number, offset) = piece.expect("a shard answers each piece once");
        let open = self
            .open
            .get_mut(number)
            .expect("an open request has unanswered pieces");
        match reply.result {
            Err(failure) => {
                open.failure.get_or_insert(failure);
            }
            Ok(blocks) => {
                for (at, block) in blocks.into_iter().enumerate() {
                    open.data[offset + at] = Some(block);
                }
            }
        }
        open.left -= 1;
        if open.left > 0 {
            return None;
        }
        let open = self
            .open
            .remove(number)
            .expect("the request was just found");
        let result = match open.failure {
            Some(failure) => Err(failure),
            None => Ok(open.data.into_iter().flatten().collect()),
        };
        Some(Reply {
            token: open.token,
            result,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Weightless;
    use crate::geometry::Level;

    fn router(shards: usize) -> Router<Weightless> {
        let geometry = Geometry::new(Level::Raid5, 3, 4096, 4096 * 100).unwrap();
        Router::new(
            geometry,
            Sharding {
                shards,
                area_stripes: 2,
            },
        )
    }

    #[test]
    fn pieces_cover_a_request_and_the_last_answer_answers_it() {
        let mut router = router(3);
        let request = Request::Read {
            start: 3,
            blocks: 10,
        };
        let pieces = router.divide(77, request).unwrap();
        let shown: Vec<_> = pieces
            .iter()
            .map(|(shard, _, request)| match request {
                Request::Read { start, blocks } => (*shard, *start, *blocks),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(shown, [(0, 3, 1), (1, 4, 4), (2, 8, 4), (0, 12, 1)]);
        let last = pieces.len() - 1;
        for (at, (_, token, request)) in pieces.into_iter().enumerate().rev() {
            let Request::Read { blocks, .. } = request else {
                unreachable!("only reads were submitted");
            };
            let result = Ok(vec![Weightless; blocks as usize]);
            let answer = router.join(Reply { token, result });
            assert_eq!(answer.is_some(), at == 0, "{at} of {last}");
            if let Some(answer) = answer {
                assert_eq!((answer.token, answer.result.unwrap().len()), (77, 10));
            }
        }
    }

    #[test]
    fn a_flush_is_sent_to_all_shards_and_fails_if_one_fails() {
        let mut router = router(3);
        let pieces = router.divide(5, Request::Flush).unwrap();
        assert_eq!(pieces.len(), 3);
        let mut answers = pieces.into_iter().map(|(shard, token, _)| {
            let result = if shard == 1 {
                Err(Failure::Broken)
            } else {
                Ok(Vec::new())
            };
            router.join(Reply { token, result })
        });
        assert!(answers.next().unwrap().is_none() && answers.next().unwrap().is_none());
        let last = answers.next().unwrap().unwrap();
        assert_eq!((last.token, last.result.is_err()), (5, true));
    }

    #[test]
    fn requests_beyond_the_end_are_rejected() {
        let mut router = router(2);
        let size = router.geometry.blocks();
        let request = Request::Read {
            start: size,
            blocks: 1,
        };
        assert!(router.divide(1, request).is_err());
    }
}
